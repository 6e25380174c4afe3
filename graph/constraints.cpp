#include "graph/constraints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.hpp"

namespace attest::graph {
namespace {

std::optional<Index> whole(std::string_view text, Index most) {
  Index value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 1 || value > most) return std::nullopt;
  return value;
}

std::vector<std::string_view> items(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    found.push_back(item);
  }
  return found;
}

std::optional<Constraints::Range> range_from(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto least = whole(text.substr(0, dots), longest_size);
  const auto most = dots == text.npos ? least : whole(text.substr(dots + 2), longest_size);
  if (!least || !most || *most < *least) return std::nullopt;
  return Constraints::Range{*least, *most};
}

std::optional<Use> use_from(std::string_view text) {
  constexpr Index most_rows = Index{1} << 31;
  if (text == "floats") return Use{Role::floats, 0};
  if (text == "addend") return Use{Role::addend, 0};
  if (text == "flags") return Use{Role::flags, 0};
  if (text == "lengths") return Use{Role::lengths, 0};
  if (text == "numbers") return Use{Role::numbers, 0};
  if (!text.starts_with("ids:")) return std::nullopt;
  const auto count = whole(text.substr(4), most_rows);
  return count ? std::optional(Use{Role::ids, *count}) : std::nullopt;
}

}  // namespace

bool Constraints::permits(const std::string& axis, Index size) const {
  const auto ranges = sizes.find(axis);
  return ranges == sizes.end() || std::ranges::any_of(ranges->second, [size](const Range& range) {
           return range.least <= size && size <= range.most;
         });
}

Index Constraints::below(const std::string& axis, Index size) const {
  const auto ranges = sizes.find(axis);
  if (ranges == sizes.end()) return size - 1;
  Index found = 0;
  for (const Range& range : ranges->second)
    if (range.least < size) found = std::max(found, std::min(range.most, size - 1));
  return found;
}

Index Constraints::near(const std::string& axis, Index size) const {
  if (permits(axis, size)) return size;
  const auto& ranges = sizes.find(axis)->second;
  const Range& range = ranges[static_cast<std::size_t>(size) % ranges.size()];
  return range.least + size % (range.most - range.least + 1);
}

bool Constraints::permits(const std::string& input, Regime regime) const {
  const auto regimes = values.find(input);
  return regimes == values.end() || std::ranges::find(regimes->second, regime) != regimes->second.end();
}

void constrain(Constraints& constraints, std::string_view key, std::string_view value) {
  const auto refuse = [&](const std::string& why) {
    return usage_error(fmt::format("'{}' = '{}' of a model: {}", key, value, why));
  };
  const std::size_t dot = key.find('.');
  const std::string kind(key.substr(0, dot)), name(dot == key.npos ? std::string_view() : key.substr(dot + 1));
  if (name.empty() || (kind != "size" && kind != "values" && kind != "role"))
    throw refuse("keys are size.AXIS, values.INPUT and role.INPUT");
  const auto words = items(value);
  if (kind == "size") {
    auto& ranges = constraints.sizes[name];
    ranges.clear();
    for (const std::string_view word : words) {
      const auto range = range_from(word);
      if (!range) throw refuse(fmt::format("lengths are as in 1..8,16, from 1 to {}", longest_size));
      ranges.push_back(*range);
    }
    if (ranges.empty()) throw refuse("it names no length");
  } else if (kind == "values") {
    auto& regimes = constraints.values[name];
    regimes.clear();
    for (const std::string_view word : words) regimes.push_back(regime_named(word));
    if (regimes.empty()) throw refuse("it names no way to make the input");
  } else {
    const auto use = use_from(value);
    if (!use) throw refuse("roles are floats, addend, flags, lengths, numbers and ids:COUNT");
    constraints.roles.insert_or_assign(name, *use);
  }
}

std::string to_text(const Use& use) {
  constexpr std::string_view roles[] = {"floats", "addend", "flags", "ids", "lengths", "numbers", "given"};
  return fmt::format("{}{}", roles[static_cast<int>(use.role)],
                     use.role == Role::ids ? fmt::format(":{}", use.count) : "");
}

std::string to_text(const Constraints& constraints) {
  std::vector<std::string> words;
  for (const auto& [axis, ranges] : constraints.sizes) {
    std::vector<std::string> lengths;
    for (const auto& [least, most] : ranges)
      lengths.push_back(least == most ? fmt::format("{}", least) : fmt::format("{}..{}", least, most));
    words.push_back(fmt::format("size.{}={}", axis, fmt::join(lengths, ",")));
  }
  for (const auto& [input, regimes] : constraints.values) {
    std::vector<std::string_view> names;
    for (const Regime regime : regimes) names.push_back(name(regime));
    words.push_back(fmt::format("values.{}={}", input, fmt::join(names, ",")));
  }
  for (const auto& [input, use] : constraints.roles) words.push_back(fmt::format("role.{}={}", input, to_text(use)));
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace attest::graph
