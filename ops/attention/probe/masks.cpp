// Finds the keys that take part in a row: queries are 0 and the values a unit matrix, so that out shows each key.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/inputs.hpp"
#include "ops/attention/probe/parts.hpp"

namespace attest::ops::of_attention {
namespace {

// nullopt where the subject takes too few columns of v.
std::optional<Problem> telling(const Maker& maker, Index lq, Index lk) {
  Problem p = maker.blank(lq, lk, 1, lk);
  if (p.dv < p.lk) p = maker.blank(lq, lk, 1, maker.supports().lk.nearest(lk));
  if (p.dv < p.lk) return std::nullopt;
  for (Index j = 0; j < p.lk; ++j) set(p, Edit::Tensor::v, {0, 0, j, j}, 1);
  return p;
}

// ---- what a row says ------------------------------------------------------------------------------------------------

enum class Open : std::uint8_t { nothing, some, not_finite };
struct Taken {
  Open open = Open::nothing;
  std::vector<Index> keys;
  friend bool operator==(const Taken&, const Taken&) = default;
};

Taken taken(const Shown& shown, Index row) {
  Taken found;
  for (Index j = 0; j < shown.own().lk; ++j) {
    const double weight = shown.out(j, row);
    if (!std::isfinite(weight)) return {Open::not_finite, {}};
    if (std::fabs(weight) > 0.25 / static_cast<double>(shown.own().lk)) found.keys.push_back(j);
  }
  if (!found.keys.empty()) found.open = Open::some;
  return found;
}

std::string in_words(const Taken& taken) {
  if (taken.open == Open::not_finite) return "NaN";
  if (taken.open == Open::nothing) return "none";
  return fmt::format("{}", fmt::join(taken.keys, ","));
}

std::vector<Index> expected(const Problem& p, Index row, Index shift_left, Index shift_right) {
  CallOptions options;
  options.causal = p.causal;
  options.align = p.align;
  options.window_left = p.window_left;
  options.window_right = p.window_right;
  const KeyRange range = key_range(options, row, p.lq, p.lk);
  std::vector<Index> keys;
  for (Index j = std::max<Index>(0, range.first + shift_left); j < std::min(p.lk, range.last + shift_right); ++j)
    keys.push_back(j);
  return keys;
}

// Tells whether every row takes these keys; rows that are to take none say nothing, whatever they return.
bool matches(const Shown& shown, const Problem& as, Index shift_left, Index shift_right) {
  for (Index i = 0; i < as.lq; ++i) {
    const std::vector<Index> keys = expected(as, i, shift_left, shift_right);
    if (expected(as, i, 0, 0).empty()) continue;
    const Taken found = taken(shown, i);
    if (found.keys != keys || found.open == Open::not_finite) return false;
  }
  return true;
}

std::string every_row(const Shown& shown) {
  std::string all;
  for (Index i = 0; i < shown.own().lq; ++i) all += fmt::format("{}{}", i == 0 ? "" : " | ", in_words(taken(shown, i)));
  return "keys by row: " + all;
}

// ---- causality and windows ------------------------------------------------------------------------------------------

std::string_view corner(Align align) { return align == Align::top_left ? "top left" : "bottom right"; }

std::string diagonal_in_words(const Shown& shown) {
  std::string found;
  for (const Align align : {shown.own().align, Align::top_left, Align::bottom_right}) {
    Problem as = shown.own();
    as.align = align;
    for (const auto& [shift, words] : {std::pair{0, ""}, {1, ", one key more"}, {-1, ", one key fewer"}})
      if (matches(shown, as, 0, shift)) return fmt::format("{}{}", corner(align), words);
  }
  return every_row(shown);
}

void causal(const Asking& asking, std::vector<ProbeRow>& rows) {
  const Supports& s = asking.maker.supports();
  if (!s.causal) return;
  for (const Align align : {Align::top_left, Align::bottom_right}) {
    if (align == Align::top_left ? !s.top_left : !s.bottom_right) continue;
    for (const auto& [lq, lk] : {std::pair{3, 5}, {5, 3}}) {
      const std::string stage = fmt::format("causal, {} queries of {} keys", lq < lk ? "fewer" : "more", corner(align));
      const std::string name = fmt::format("causal {}, lq {} lk", corner(align), lq < lk ? "<" : ">");
      auto p = telling(asking.maker, lq, lk);
      if (!p) {
        rows.push_back(untold(name, std::string(corner(align)), "it takes as many columns of v as keys"));
        continue;
      }
      p->causal = true;
      p->align = align;
      const Shown shown = asking.ask(*p);
      const std::string promised(corner(align));
      std::string observed = shown.done() ? diagonal_in_words(shown) : "";
      const bool agrees = observed == promised;
      if (agrees && p->lq == p->lk) observed = cannot_tell("the subject takes as many queries as keys");
      rows.push_back(row_of(name, promised, observed, shown, agrees ? Standing::agrees : Standing::open));
    }
  }
}

void windows(const Asking& asking, std::vector<ProbeRow>& rows) {
  if (!asking.maker.supports().window) return;
  for (const auto& [left, right] : {std::pair<Index, Index>{2, -1}, {-1, 1}, {1, 2}}) {
    auto p = telling(asking.maker, 6, 6);
    if (!p) return;
    p->window_left = left;
    p->window_right = right;
    if (!asking.maker.supports().top_left) p->align = Align::bottom_right;
    const Shown shown = asking.ask(*p);
    const auto side = [](Index n) { return n < 0 ? std::string("all") : fmt::format("{}", n); };
    const auto words = [&](Index l, Index r) { return fmt::format("{} before, {} after", side(l), side(r)); };
    std::string observed = shown.done() ? every_row(shown) : "";
    for (const Index l : {0, 1, -1})
      for (const Index r : {0, 1, -1})
        if (shown.done() && (left >= 0 || l == 0) && (right >= 0 || r == 0) && matches(shown, *p, -l, r))
          observed = words(left + l, right + r);
    const bool agrees = observed == words(left, right);
    rows.push_back(row_of(fmt::format("window, {}", left >= 0 && right >= 0 ? "both sides"
                                                    : left >= 0             ? "left"
                                                                            : "right"),
                          words(left, right), observed, shown, agrees ? Standing::agrees : Standing::open));
  }
}

// ---- masks of tensors -----------------------------------------------------------------------------------------------

std::vector<Index> all_but(Index n, std::vector<Index> closed) {
  std::vector<Index> keys;
  for (Index j = 0; j < n; ++j)
    if (std::ranges::count(closed, j) == 0) keys.push_back(j);
  return keys;
}

// Keys 1 and 3 are closed by one way or another.
ProbeRow closing(const Asking& asking, std::string stage, Problem p, const std::vector<Index>& closed) {
  const Shown shown = asking.ask(p);
  const std::string promised = "left out";
  std::string observed;
  if (shown.done()) {
    const Taken found = taken(shown, 0);
    observed = found.keys == all_but(p.lk, closed) ? "left out"
               : found.keys == all_but(p.lk, {})   ? "taken all the same"
                                                   : "takes keys " + in_words(found);
  }
  const bool agrees = observed == promised;
  return row_of(std::move(stage), promised, observed, shown, agrees ? Standing::agrees : Standing::open);
}

void closed_keys(const Asking& asking, std::vector<ProbeRow>& rows) {
  const Supports& s = asking.maker.supports();
  const auto blank = telling(asking.maker, 1, 5);
  if (!blank) return;
  if (s.keep) {
    Problem p = *blank;
    p.keep = Keep::open;
    for (const Index j : {1, 3}) set(p, Edit::Tensor::keep, {0, 0, 0, j}, 0);
    rows.push_back(closing(asking, "keys closed by keep", p, {1, 3}));
  }
  if (s.bias) {
    Problem p = *blank;
    p.bias = Bias::zero;
    if (!s.bias_types[0]) p.bias_type = BiasType::f32;
    for (const Index j : {1, 3}) set(p, Edit::Tensor::bias, {0, 0, 0, j}, -infinity);
    rows.push_back(closing(asking, "keys closed by -inf", p, {1, 3}));
  }
  if (s.kv_lengths) {
    Problem p = *blank;
    p.lengths = Lengths::full;
    set(p, Edit::Tensor::kv_lengths, {0, 0, 0, 0}, 2);
    std::vector<Index> past;
    for (Index j = 2; j < p.lk; ++j) past.push_back(j);
    rows.push_back(closing(asking, "keys past the length", p, past));
  }
}

// The only open key scores -20000: lower than what masks that are no -inf are made of.
void finite_mask(const Asking& asking, std::vector<ProbeRow>& rows) {
  const Supports& s = asking.maker.supports();
  for (const bool by_bias : {false, true}) {
    if (by_bias ? !s.bias : !s.keep) continue;
    auto p = asking.maker.paired(2, 1);
    if (!p) return;
    if (by_bias) {
      p->bias = Bias::zero;
      if (!s.bias_types[0]) p->bias_type = BiasType::f32;
    } else {
      p->keep = Keep::open;
    }
    for (Index j = 1; j < p->lk; j += 2)
      set(*p, by_bias ? Edit::Tensor::bias : Edit::Tensor::keep, {0, 0, 0, j}, by_bias ? -infinity : 0);
    set_q(*p, 0, 0, -160);
    set_keys(*p, 0, 0, 128 / p->effective_scale());
    set_values(*p, 0, 1);
    set_values(*p, 1, 2);
    const Shown shown = asking.ask(*p);
    std::string observed;
    if (shown.done()) {
      const double out = shown.out();
      observed = std::fabs(out - 1) < 0.02   ? "-inf"
                 : std::fabs(out - 2) < 0.02 ? "a finite number, which leaks into rows that score lower"
                 : out == 0                  ? "the row is taken for empty"
                 : std::isnan(out)           ? "NaN"
                                             : fmt::format("out is {:.4g}", out);
    }
    const bool agrees = observed == "-inf";
    rows.push_back(row_of(by_bias ? "score of a key at -inf" : "score of a closed key", "-inf", observed, shown,
                          agrees ? Standing::agrees : Standing::open));
  }
}

// A closed key whose score overflows: -inf added to it is no number.
void added_mask(const Asking& asking, std::vector<ProbeRow>& rows) {
  if (!asking.maker.supports().keep) return;
  const bool added = asking.contract.mask_added;
  const std::string stage = "mask", promised = added ? "may be added" : "replaces the score";
  const Format dtype = asking.maker.dtype();
  if (has_short_range(dtype)) {
    rows.push_back(untold(stage, promised, fmt::format("no score of {} inputs overflows f32", name(dtype))));
    return;
  }
  auto p = asking.maker.paired(2, 1);
  if (!p) return;
  const double huge = std::ldexp(1.0, dtype == Format::f64 ? 600 : 100);
  p->keep = Keep::open;
  for (Index j = 1; j < p->lk; j += 2) set(*p, Edit::Tensor::keep, {0, 0, 0, j}, 0);
  set_q(*p, 0, 0, huge);
  set_keys(*p, 1, 0, huge);
  set_values(*p, 0, 1);
  const Shown shown = asking.ask(*p);
  std::string observed;
  if (shown.done())
    observed = shown.out() == 1          ? "replaces the score"
               : std::isnan(shown.out()) ? "is added to the score"
                                         : fmt::format("out is {:.4g}", shown.out());
  const bool agrees = observed == "replaces the score" || (added && observed == "is added to the score");
  rows.push_back(row_of(stage, promised, observed, shown, agrees ? Standing::agrees : Standing::open));
}

// NaN in a closed key and its value.
void closed_contents(const Asking& asking, std::vector<ProbeRow>& rows) {
  const auto promised = [&](bool past_length) {
    const MaskedUnread said = asking.contract.masked_unread;
    return said == MaskedUnread::yes || (said == MaskedUnread::beyond_length && past_length);
  };
  const auto row = [&](std::string stage, bool past_length, Problem p, Index key) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    set(p, Edit::Tensor::k, {0, 0, key, 0}, nan);
    set(p, Edit::Tensor::v, {0, 0, key, 0}, nan);
    const Shown shown = asking.ask(p);
    const bool unread = promised(past_length);
    const bool clean = shown.done() && std::isfinite(shown.out());
    rows.push_back(row_of(std::move(stage), unread ? "not read" : "not said",
                          clean ? "not read" : "read: NaN comes through", shown,
                          !unread ? Standing::unsaid
                          : clean ? Standing::agrees
                                  : Standing::contradicts));
  };
  const Supports& s = asking.maker.supports();
  if (s.keep) {
    Problem p = asking.maker.blank(1, 4, 1, 1);
    p.keep = Keep::open;
    set(p, Edit::Tensor::keep, {0, 0, 0, 1}, 0);
    row("NaN in a closed key", false, p, 1);
  }
  if (s.causal && s.top_left) {
    Problem p = asking.maker.blank(2, 4, 1, 1);
    p.causal = true;
    if (p.lk > 1) row("NaN in a later key", false, p, 1);
  }
  if (s.kv_lengths) {
    Problem p = asking.maker.blank(1, 4, 1, 1);
    p.lengths = Lengths::full;
    set(p, Edit::Tensor::kv_lengths, {0, 0, 0, 0}, static_cast<double>(p.lk - 1));
    row("NaN past the length", true, p, p.lk - 1);
  }
}

// ---- rows without keys ----------------------------------------------------------------------------------------------

std::string empty_promised(EmptyRow rule) {
  constexpr const char* names[] = {"not said", "zero", "nan", "mean_v", "mean_all"};
  return names[static_cast<int>(rule)];
}

void empty_row(const Asking& asking, std::string stage, Problem p, Index length, std::vector<ProbeRow>& rows) {
  const Shown shown = asking.ask(p);
  const std::string promised = empty_promised(asking.contract.empty_row);
  std::string observed;
  if (shown.done()) {
    bool zero = true, nan = true, mean = length > 0, all = true;
    for (Index j = 0; j < p.lk; ++j) {
      const double out = shown.out(j), share = j < length ? 1.0 / static_cast<double>(length) : 0;
      zero = zero && out == 0;
      nan = nan && std::isnan(out);
      mean = mean && std::fabs(out - share) < 0.01;
      all = all && std::fabs(out - 1.0 / static_cast<double>(p.lk)) < 0.01;
    }
    observed = zero   ? "zero"
               : nan  ? "nan"
               : mean ? "mean_v"
               // Blank scores do not tell it from a row that takes every key: it is seen where it was promised.
               : all && promised == "mean_all" ? "mean_all"
                                               : "takes keys " + in_words(taken(shown, 0));
  }
  const bool said = asking.contract.empty_row != EmptyRow::unspecified;
  const bool agrees = observed == promised || (length == p.lk && promised == "mean_all" && observed == "mean_v");
  rows.push_back(row_of(std::move(stage), promised, observed, shown,
                        !said    ? Standing::unsaid
                        : agrees ? Standing::agrees
                                 : Standing::contradicts));
}

void empty_rows(const Asking& asking, std::vector<ProbeRow>& rows) {
  const Supports& s = asking.maker.supports();
  const auto blank = telling(asking.maker, 1, 4);
  if (!blank) return;
  if (s.keep) {
    Problem p = *blank;
    p.keep = Keep::closed;
    empty_row(asking, "empty row, by keep", p, p.lk, rows);
  }
  if (s.bias) {
    Problem p = *blank;
    p.bias = Bias::zero;
    if (!s.bias_types[0]) p.bias_type = BiasType::f32;
    for (Index j = 0; j < p.lk; ++j) set(p, Edit::Tensor::bias, {0, 0, 0, j}, -infinity);
    empty_row(asking, "empty row, by -inf", p, p.lk, rows);
  }
  if (s.causal && s.bottom_right)
    if (auto p = telling(asking.maker, 6, 4); p && p->lq > p->lk) {
      p->causal = true;
      p->align = Align::bottom_right;
      empty_row(asking, "empty row, by causality", *p, p->lk, rows);
    }
  if (s.kv_lengths) {
    Problem p = *blank;
    p.lengths = Lengths::full;
    set(p, Edit::Tensor::kv_lengths, {0, 0, 0, 0}, 0);
    empty_row(asking, "empty row, by length", p, 0, rows);
  }
}

}  // namespace

std::vector<ProbeRow> mask_rows(const Asking& asking) {
  std::vector<ProbeRow> rows;
  causal(asking, rows);
  windows(asking, rows);
  closed_keys(asking, rows);
  finite_mask(asking, rows);
  added_mask(asking, rows);
  closed_contents(asking, rows);
  empty_rows(asking, rows);
  return rows;
}

}  // namespace attest::ops::of_attention
