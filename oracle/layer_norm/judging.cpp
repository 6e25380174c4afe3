// LayerNormOracle::judge(): combines the levels of quick.hpp and decide.hpp and the whole formulas.
#include <algorithm>
#include <array>
#include <cmath>

#include "oracle/layer_norm/decide.hpp"
#include "oracle/layer_norm/lent.hpp"
#include "oracle/layer_norm/oracle.hpp"

namespace attest::oracle::layer_norm {

// Decides a row of which nothing is known, or whose only permitted result is NaN.
bool LayerNormOracle::decide_open_row(std::span<const double> got, std::span<std::uint8_t> decided) {
  if (!params_.finite()) return false;
  if (source_.finite) {
    if (!statistics().undetermined) return false;
    std::ranges::fill(decided, Decided::undetermined);
    return true;
  }
  const bool nan = contract_.nan == NanRule::propagates && source_.has_nan;
  std::ranges::transform(got, decided.begin(), [&](double value) {
    return !nan ? Decided::undetermined : std::isnan(value) ? Decided::inside : Decided::unknown;
  });
  return true;
}

bool LayerNormOracle::judge_sums(Index row, const Tensor& sum_out, std::vector<double>& got, Verdict& verdict) {
  read(sum_out, row, got);
  const auto n = static_cast<std::size_t>(problem_.hidden);
  if (same_numbers(got.data(), stored_.data(), problem_.hidden)) {
    verdict.counts.judged += problem_.hidden;
    return true;
  }
  for (std::size_t i = 0; i < n; ++i)
    if (got[i] == stored_[i])
      ++verdict.counts.judged;
    else if (!judge_sum(row, static_cast<Index>(i), got[i], verdict))
      return false;
  return true;
}

// The outcomes of the entered row, as far as they are known without the whole of its statistics.
struct LayerNormOracle::Told {
  bool all = false;  // all elements have the outcome `of_all`, and `decided` is unset
  std::uint8_t of_all = Decided::inside;
  Index left = 0;       // elements without an outcome
  Index unsure = 0;     // elements that are inside, and perhaps wide
  bool narrow = false;  // one of them surely is not
};

LayerNormOracle::Told LayerNormOracle::tell(QuickRow& quick, Levels levels, bool some_narrow,
                                            std::span<const double> got, std::span<std::uint8_t> accepted,
                                            std::span<std::uint8_t> decided) {
  const QuickRow::Known known = quick.enter(source_);
  const auto n = static_cast<std::size_t>(problem_.hidden);
  Told told;
  if ((known.lost || known.lost_mean || known.undetermined) && params_.finite() &&
      std::ranges::all_of(got.first(n), [this](double x) { return is_no_number(x); })) {
    told.all = true;
    told.of_all = Decided::undetermined;
    return told;
  }
  if (known.determined && (known.narrow || levels == Levels::quick)) {
    told.all = quick.accept(got, accepted.data());
    Index inside = problem_.hidden;
    if (!told.all) inside = tell_each(quick, known, got, accepted, decided, told.left);
    told.narrow = some_narrow || (known.narrow && inside > 0);  // one that is judged
    told.unsure = known.narrow ? 0 : inside;
    // One of a few is enough.
    const std::size_t asked = told.unsure > 0 && !told.narrow && !quick.surely_wide() ? std::min<std::size_t>(n, 4) : 0;
    for (std::size_t i = 0; i < asked && !told.narrow; ++i)
      told.narrow = (told.all || decided[i] == Decided::inside) &&
                    quick.surely_not_wide(element(static_cast<Index>(i), quick.difference(static_cast<Index>(i))));
    return told;
  }
  told.left = problem_.hidden;
  if (known.undetermined || known.lost || (known.lost_mean && !known.determined)) {
    if (known.undetermined && !numbers_.rms && params_.none_vanish(numbers_.gamma_offset)) {
      told.all = true;
      told.of_all = Decided::undetermined;
      return told;
    }
    told.left = 0;
    if (known.lost && !known.undetermined && params_.finite()) {
      tell_lost(got, decided);
    } else {
      for (std::size_t i = 0; i < n; ++i) decided[i] = tell_unbounded(known, i, got[i]);
    }
    for (std::size_t i = 0; i < n; ++i) told.left += decided[i] == Decided::unknown;
  } else {
    std::ranges::fill(decided, Decided::unknown);
  }
  return told;
}

// Returns how many elements of a determined row are inside, and writes the outcome of each to `decided`.
Index LayerNormOracle::tell_each(const QuickRow& quick, const QuickRow::Known& known, std::span<const double> got,
                                 std::span<const std::uint8_t> accepted, std::span<std::uint8_t> decided,
                                 Index& left) const {
  constexpr Index most_parts = 32;  // more would cost what the whole of the statistics does
  Index inside = 0, parts = problem_.hidden / 64 + most_parts;
  for (Index i = 0; i < problem_.hidden; ++i) {
    const auto at = static_cast<std::size_t>(i);
    std::uint8_t& here = decided[at];
    here = Decided::unknown;
    if ((accepted[at / 8] >> at % 8 & 1) != 0)
      here = Decided::inside;
    else if (known.narrow && std::isinf(got[at]) && quick.surely_infinite(i, got[at]))
      here = Decided::inside;
    else if (!std::isfinite(got[at]))
      here = known.lost_mean || quick.surely_overflows(i) ? Decided::undetermined : Decided::unknown;
    else if (parts-- > 0 && quick.surely_inside(element(i, quick.difference(i)), got[at]))
      here = Decided::inside;
    inside += here == Decided::inside;
    left += here == Decided::unknown;
  }
  return inside;
}

// Decides an element of a row whose variance may overflow, or whose elements nothing bounds.
std::uint8_t LayerNormOracle::tell_unbounded(const QuickRow::Known& known, std::size_t i, double got) const {
  const double gamma = params_.gamma.empty() ? 1 : params_.gamma[i] + numbers_.gamma_offset;
  const double beta = params_.beta.empty() ? 0 : params_.beta[i];
  if (!std::isfinite(gamma) || !std::isfinite(beta)) return Decided::unknown;
  if (known.undetermined && gamma != 0 && (!numbers_.rms || source_.x[i] != 0)) return Decided::undetermined;
  if (!std::isfinite(got)) return is_no_number(got) ? Decided::undetermined : Decided::unknown;
  if (known.lost && numbers_.clamp) return Decided::undetermined;
  const bool is_beta =
      (got == beta && !numbers_.affine_loses_params) || got == round_(round_to(numbers_.affine.format, beta));
  if (known.lost) return is_beta ? Decided::undetermined : Decided::unknown;
  if (!known.undetermined) return Decided::unknown;
  // Nothing is left of what is not bounded.
  const bool vanishes = gamma == 0 && numbers_.gamma_offset == 0 && !numbers_.affine_loses_params;
  return is_beta && vanishes ? Decided::inside : Decided::unknown;
}

// The same of all elements of a row whose variance may overflow.
void LayerNormOracle::tell_lost(std::span<const double> got, std::span<std::uint8_t> decided) {
  const auto n = static_cast<std::size_t>(problem_.hidden);
  if (beta_left_.empty()) {
    beta_left_.resize(n);
    for (std::size_t i = 0; i < n; ++i)
      beta_left_[i] = params_.beta.empty() ? 0 : round_(round_to(numbers_.affine.format, params_.beta[i]));
  }
  const double* beta = params_.beta.empty() || numbers_.affine_loses_params ? beta_left_.data() : params_.beta.data();
  const double* left = beta_left_.data();
  const bool of_infinities = round_.tensor != Format::f64, of_numbers = numbers_.clamp;
  for (std::size_t i = 0; i < n; ++i) {
    const double value = got[i];
    const bool is_beta = (value == left[i]) | (value == beta[i]);
    const bool open = std::isnan(value) || (std::isinf(value) ? of_infinities : of_numbers);
    decided[i] = is_beta || open ? Decided::undetermined : Decided::unknown;
  }
}

// Tells whether `got` is permitted for that alone by a row that may overflow, or whose variance plus epsilon may be 0.
// In float64 both ends of an interval may be the same infinity, which then lies inside.
bool LayerNormOracle::is_no_number(double got) const {
  return std::isnan(got) || (std::isinf(got) && round_.tensor != Format::f64);
}

// Decides the rest of a row by the whole of its statistics.
void LayerNormOracle::decide_rest(DecideRow& decide, std::span<const double> got, std::span<std::uint8_t> decided,
                                  std::span<std::uint8_t> scratch) {
  if (!decide_open_row(got, scratch)) decide(source_, statistics(), got, scratch);
  std::ranges::transform(decided, scratch, decided.begin(),
                         [](auto first, auto second) { return first == Decided::unknown ? second : first; });
}

// Tells whether every element of a problem is surely wide. It is asked where no element is outside and none surely
// narrow.
bool LayerNormOracle::all_surely_wide(QuickRow& quick) {
  return std::ranges::all_of(attest::layer_norm::judged_rows(problem_), [&](Index row) {
    enter(row);
    return quick.enter(source_).determined && quick.surely_wide();
  });
}

Verdict LayerNormOracle::judge_rows(const Tensor& out, const Tensor& sum_out, Levels levels) {
  Verdict verdict = Verdict::pass();
  Counts& counts = verdict.counts;
  QuickRow quick(numbers_, params_, inputs_.epsilon, round_);
  DecideRow decide(numbers_, params_, round_);
  const auto n = static_cast<std::size_t>(problem_.hidden);
  std::vector<double> got = LentRows::take(static_cast<std::size_t>(padded(problem_.hidden)));
  const Returned given_back(got);
  // A bit for each element in the first, and a byte in the others.
  std::array<std::uint8_t, 1088> of_short_row;
  const std::size_t room = got.size() / 8 + 2 * got.size();
  std::vector<std::uint8_t> of_long_row(room > of_short_row.size() ? room : 0);
  const std::span bytes = of_long_row.empty() ? std::span<std::uint8_t>(of_short_row) : std::span(of_long_row);
  const std::span accepted = bytes.first(got.size() / 8), decided = bytes.subspan(accepted.size(), got.size()),
                  scratch = bytes.subspan(accepted.size() + decided.size(), got.size());
  std::ranges::fill(decided, Decided::unknown);
  Index unsure = 0;          // elements that are inside, and perhaps wide
  bool some_narrow = false;  // one that is judged surely is not
  ShortRows short_rows;
  if (levels != Levels::whole) begin_short_rows(short_rows, quick);
  for (const Index row : attest::layer_norm::judged_rows(problem_)) {
    if (short_rows.speaks) {
      if (!short_rows.has(row)) look_at_short_rows(short_rows, quick, row, out, sum_out);
      if (short_rows.is_open(row)) {
        ++counts.undetermined;
        counts.judged += sum_out.present() ? 1 : 0;
        continue;
      }
      // Until one of them surely is not wide, the others are asked one by one.
      const bool narrow = short_rows.is_narrow(row);
      if (short_rows.holds(row) && (narrow || (some_narrow && levels == Levels::quick))) {
        counts.judged += problem_.hidden * (sum_out.present() ? 2 : 1);
        unsure += narrow ? 0 : problem_.hidden;
        some_narrow = true;
        continue;
      }
    }
    enter(row);
    read(out, row, got);
    Told told;
    if (levels != Levels::whole) {
      told = tell(quick, levels, some_narrow, got, accepted, decided);
      if (told.all)
        (told.of_all == Decided::undetermined ? counts.undetermined : counts.judged) += problem_.hidden;
      else if (told.left > 0)
        decide_rest(decide, got, decided, scratch);
      unsure += told.unsure;
      some_narrow |= told.narrow;
    }
    for (std::size_t i = told.all ? n : 0; i < n; ++i) {
      if (decided[i] != Decided::unknown) {
        ++(decided[i] == Decided::undetermined ? counts.undetermined : counts.judged);
        counts.wide += decided[i] == Decided::wide;
        continue;
      }
      const Interval of_element = interval(row, static_cast<Index>(i));
      const Outcome outcome_of = outcome(of_element, got[i]);
      if (outcome_of == Outcome::undetermined) {
        ++counts.undetermined;
        continue;
      }
      ++counts.judged;
      counts.wide += holds_hull(of_element.enclosure);
      if (outcome_of == Outcome::inside) continue;
      if (unsure > 0) return judge_rows(out, sum_out, Levels::counting);
      Evidence evidence = evidence_of(of_element.enclosure, round_, got[i]);
      evidence.tensor = "out";
      evidence.index = {row, static_cast<Index>(i), 0, 0};
      if (of_element.enclosure.expect == Expect::nan) evidence.note = "a NaN among its inputs was lost";
      return Verdict::fail(std::move(evidence), counts);
    }
    if (sum_out.present() && !judge_sums(row, sum_out, got, verdict))
      return unsure > 0 ? judge_rows(out, sum_out, Levels::counting) : verdict;
  }
  if (counts.judged == 0 && counts.undetermined > 0) return Verdict::vacuous("undetermined", counts);
  if (unsure > 0 && !some_narrow && counts.wide + unsure >= counts.judged) {
    if (!all_surely_wide(quick)) return judge_rows(out, sum_out, Levels::counting);
    counts.wide = counts.judged;
  }
  if (counts.judged > 0 && counts.wide == counts.judged) return Verdict::vacuous("wide", counts);
  counts.wide = 0;
  return verdict;
}

Verdict LayerNormOracle::judge(const Tensor& out, const Tensor& sum_out) {
  return judge_rows(out, sum_out, Levels::quick);
}
Verdict LayerNormOracle::judge_slowly(const Tensor& out, const Tensor& sum_out) {
  return judge_rows(out, sum_out, Levels::whole);
}

}  // namespace attest::oracle::layer_norm
