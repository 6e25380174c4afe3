// (a) Which elements are wrong.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "core/picture.hpp"
#include "core/tensor.hpp"
#include "engine/explain/parts.hpp"

namespace attest::engine::explaining {
namespace {

using oracle::Outcome;

bool wrong(const Element& e) { return e.outcome == Outcome::outside; }

// ---- a condition that holds of every wrong element ------------------------------------------------------------------

struct Condition {
  enum class Form : std::uint8_t { equal, at_least, at_most, residue };
  std::size_t coordinate;
  Form form;
  Index value, modulus = 1;

  [[nodiscard]] bool holds(const Element& e) const {
    const Index x = e.at[coordinate];
    switch (form) {
      case Form::equal:
        return x == value;
      case Form::at_least:
        return x >= value;
      case Form::at_most:
        return x <= value;
      case Form::residue:
        return x >= 0 && x % modulus == value;
    }
    return false;
  }
  [[nodiscard]] std::string words(std::string_view name, Index last) const {
    switch (form) {
      case Form::equal:
        return fmt::format("{} = {}{}", name, value, value == last && last > 0 ? " (the last)" : "");
      case Form::at_least:
        return fmt::format("{} >= {}", name, value);
      case Form::at_most:
        return fmt::format("{} <= {}", name, value);
      case Form::residue:
        return fmt::format("{} mod {} = {}", name, modulus, value);
    }
    return {};
  }
};

struct Seen {
  std::set<Index> wrong, all;
};

// Simplest first.
std::vector<Condition> conditions(std::size_t coordinate, const Seen& seen) {
  using Form = Condition::Form;
  std::vector<Condition> found;
  if (seen.all.size() < 2 || seen.wrong.empty()) return found;
  const Index least = *seen.wrong.begin(), most = *seen.wrong.rbegin();
  if (seen.wrong.size() == 1) found.push_back({coordinate, Form::equal, least});
  if (*seen.all.begin() < least) found.push_back({coordinate, Form::at_least, least});
  if (*seen.all.rbegin() > most) found.push_back({coordinate, Form::at_most, most});
  if (seen.wrong.size() < 2 || least < 0) return found;
  for (const Index m : {128, 64, 32, 16, 8, 4, 2})
    if (std::ranges::all_of(seen.wrong, [&](Index x) { return x % m == least % m; }))
      found.push_back({coordinate, Form::residue, least % m, m});
  return found;
}

std::string place(std::span<const Element* const> elements, std::span<const std::string_view> names,
                  Index count_wrong) {
  constexpr std::size_t most_conditions = 3;
  const auto judged = static_cast<Index>(elements.size());
  if (judged == 1) return {};  // one element has no place to tell
  if (count_wrong == judged) return fmt::format("all {}", judged);
  std::vector<Condition> candidates;
  std::vector<Index> last;
  for (std::size_t k = 0; k < names.size(); ++k) {
    Seen seen;
    for (const Element* e : elements) {
      seen.all.insert(e->at[k]);
      if (wrong(*e)) seen.wrong.insert(e->at[k]);
    }
    last.push_back(*seen.all.rbegin());
    std::ranges::copy(conditions(k, seen), std::back_inserter(candidates));
  }
  std::vector<const Element*> left(elements.begin(), elements.end());
  std::vector<std::string> words;
  while (words.size() < most_conditions && static_cast<Index>(left.size()) > count_wrong) {
    const Condition* best = nullptr;
    auto fewest = static_cast<std::ptrdiff_t>(left.size());
    for (const Condition& c : candidates) {
      const auto stay = std::ranges::count_if(left, [&](const Element* e) { return c.holds(*e); });
      if (stay < fewest) {
        fewest = stay;
        best = &c;
      }
    }
    if (best == nullptr) break;
    std::erase_if(left, [&](const Element* e) { return !best->holds(*e); });
    words.push_back(best->words(names[best->coordinate], last[best->coordinate]));
  }
  if (words.empty()) return fmt::format("{} of {}, here and there", count_wrong, judged);
  const std::string where = fmt::format("{}", fmt::join(words, " and "));
  if (static_cast<Index>(left.size()) == count_wrong)
    return fmt::format("{} where {}; no other", count_wrong == 1 ? "the one" : fmt::format("all {}", count_wrong),
                       where);
  return fmt::format("{} of the {} where {}; no other", count_wrong, left.size(), where);
}

// ---- what the wrong numbers have in common --------------------------------------------------------------------------

// Says that each number is what was to be expected elsewhere in the tensor, at an index that follows from the element's
// own in one way for all of them.
std::optional<std::string> expected_elsewhere(std::span<const Element* const> elements,
                                              std::span<const std::string_view> names) {
  std::map<std::array<Index, 4>, const Element*> by_index;
  for (const Element* e : elements) by_index[e->index] = e;
  const auto fits = [&](auto&& moved) {
    bool telling = false;
    for (const Element* e : elements) {
      if (!wrong(*e)) continue;
      const auto other = by_index.find(moved(e->index));
      if (other == by_index.end() || other->second == e || !other->second->number) return false;
      if (!(e->got >= other->second->lo && e->got <= other->second->hi)) return false;
      telling = telling || e->got != 0;
    }
    return telling;
  };
  for (std::size_t axis = 0; axis < std::min<std::size_t>(names.size(), 4); ++axis) {
    if (fits([&](std::array<Index, 4> i) { return i[axis] = 0, i; }))
      return fmt::format("each holds what belongs to {} 0", names[axis]);
    for (const Index by : {1, -1})
      if (fits([&](std::array<Index, 4> i) { return i[axis] += by, i; }))
        return fmt::format("each holds what belongs to the {} {} it", names[axis], by > 0 ? "behind" : "before");
  }
  return std::nullopt;
}

// A plain factor, such as two lost or doubled terms or a sign make it, that a single wrong number is of what is right.
// One number is some multiple of any other, so that others say nothing.
std::optional<std::string> plain_factor(const Element& e) {
  const double room = std::max(e.hi - e.exact, e.exact - e.lo), size = std::fabs(e.exact);
  if (!(size > 0) || !(room < size / 64)) return std::nullopt;
  const auto is = [&](double factor) {
    return std::fabs(e.got - factor * e.exact) <= 2 * room * std::max(1., std::fabs(factor));
  };
  if (is(-1)) return "it has the other sign";
  for (const double sign : {1., -1.})
    for (const int n : {2, 3, 4, 5, 6, 7, 8, 16, 32, 64}) {
      if (is(sign * n)) return fmt::format("it is {} times what is right", sign * n);
      if (is(sign / n)) return fmt::format("it is {}1/{} of what is right", sign < 0 ? "-" : "", n);
    }
  return std::nullopt;
}

std::string relation(std::span<const Element* const> elements, std::span<const std::string_view> names) {
  std::vector<const Element*> bad;
  std::ranges::copy_if(elements, std::back_inserter(bad), [](const Element* e) { return wrong(*e); });
  const auto all = [&](auto&& is) { return std::ranges::all_of(bad, [&](const Element* e) { return is(*e); }); };
  const std::string which = bad.size() == 1 ? "it is" : "each is";
  if (all([](const Element& e) { return std::isnan(e.got); })) return which + " NaN";
  if (all([](const Element& e) { return std::isinf(e.got); })) return which + " infinite";
  if (all([](const Element& e) { return e.got == 0; })) return which + " 0";
  if (!all([](const Element& e) { return std::isfinite(e.got) && e.number; })) return {};
  if (auto elsewhere = expected_elsewhere(elements, names)) return *elsewhere;
  if (bad.size() == 1) return plain_factor(*bad.front()).value_or("");
  // A common factor, of at least two that differ.
  const double factor = bad.front()->got / bad.front()->exact;
  const bool varied = std::ranges::any_of(bad, [&](const Element* e) { return e->exact != bad.front()->exact; });
  const bool common = all([&](const Element& e) {
    const double room = std::max(e.hi - e.exact, e.exact - e.lo) * std::max(1., std::fabs(factor));
    return std::fabs(e.got - factor * e.exact) <= 2 * room;
  });
  if (varied && common && std::isfinite(factor)) return fmt::format("each is {:.4g} times what is right", factor);
  return {};
}

// Adds the error of one element to the picture.
void depict(const Element& e, WrongPlace& place) {
  if (e.outcome == Outcome::undetermined) return;
  const double error = std::fabs(e.got - e.exact), room = std::max(e.hi - e.exact, e.exact - e.lo);
  if (e.number && error == 0)
    ++place.exact;
  else if (!e.number || !std::isfinite(error) || !std::isfinite(room) || !(room > 0))
    ++place.no_number;
  else
    ++place.errors[std::clamp(static_cast<int>(std::floor(std::log2(error / room))), WrongPlace::least_error,
                              WrongPlace::most_error)];
}

}  // namespace

std::vector<WrongPlace> wrong_places(const Heard& call) {
  std::vector<WrongPlace> found;
  std::vector<std::string_view> tensors;
  for (const Element& e : call.elements)
    if (wrong(e) && std::ranges::find(tensors, e.tensor) == tensors.end()) tensors.push_back(e.tensor);
  for (const std::string_view tensor : tensors) {
    std::vector<const Element*> elements;
    WrongPlace place_of;
    Index count = 0;
    for (const Element& e : call.elements) {
      if (e.tensor != tensor) continue;
      for (std::size_t axis = 0; axis < place_of.extents.size(); ++axis)
        place_of.extents[axis] = std::max(place_of.extents[axis], e.index[axis] + 1);
      depict(e, place_of);
      if (e.outcome == Outcome::undetermined) continue;
      elements.push_back(&e);
      count += wrong(e);
    }
    place_of.tensor = tensor;
    place_of.axes =
        tensor == "lse" ? 3 : static_cast<int>(std::min<std::size_t>(4, call.reading->coordinates().size()));
    const PictureGrid grid(place_of.axes, place_of.extents);
    std::set<PictureGrid::Cell> drawn;
    for (const Element* e : elements)
      if (wrong(*e) && drawn.insert(grid.cell(e->index)).second) place_of.wrong_at.push_back(e->index);
    place_of.wrong = count;
    place_of.judged = static_cast<Index>(elements.size());
    place_of.words = place(elements, call.reading->coordinates(), count);
    place_of.relation = relation(elements, call.reading->coordinates());
    found.push_back(std::move(place_of));
  }
  return found;
}

std::vector<std::string> lies(const Call& call) {
  std::vector<std::string> words;
  for (const TensorSlot& slot : call.shape().tensors) {
    const attest_tensor& t = call.tensor(slot);
    if (!attest_present(&t)) continue;
    Index dense = 1;
    bool contiguous = true;
    for (int axis = t.ndim - 1; axis >= 0; --axis) {
      contiguous = contiguous && (t.shape[axis] <= 1 || t.strides[axis] == dense);
      dense *= t.shape[axis];
    }
    const auto address = reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
    const std::span strides(t.strides, static_cast<std::size_t>(t.ndim));
    if (!contiguous)
      words.push_back(fmt::format("{} has strides {}", slot.name, fmt::join(strides, ",")));
    else if (address % 16 != 0)
      words.push_back(fmt::format("{} begins off a boundary of 16 bytes", slot.name));
  }
  return words;
}

}  // namespace attest::engine::explaining
