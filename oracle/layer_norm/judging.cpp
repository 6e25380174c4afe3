// What judge() makes of the levels: quick.hpp, decide.hpp and the whole formulas.
#include <algorithm>
#include <cmath>

#include "oracle/layer_norm/decide.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "oracle/layer_norm/quick.hpp"

namespace attest::oracle::layer_norm {

// Of a row of which nothing is known, or of which only NaN may come.
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
  bool equal = true;
  for (std::size_t i = 0; i < n; ++i) equal &= got[i] == stored_[i];
  if (equal) {
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

// Of the entered row, as far as that is told without the whole of its statistics.
struct LayerNormOracle::Told {
  bool all = false;     // every element is inside, and `decided` says nothing
  Index unsure = 0;     // elements that are inside, and perhaps wide
  bool narrow = false;  // one of them surely is not
};

LayerNormOracle::Told LayerNormOracle::tell(QuickRow& quick, Levels levels, bool some_narrow,
                                            std::span<const double> got, std::span<std::uint8_t> accepted,
                                            std::span<std::uint8_t> decided) {
  const QuickRow::Known known = quick.enter(source_);
  const auto n = static_cast<std::size_t>(problem_.hidden);
  Told told;
  const auto of = [&](std::size_t i) {
    const auto column = static_cast<Index>(i);
    return element(column, quick.difference(column));
  };
  const bool determined = known.determined && (known.narrow || levels == Levels::quick);
  told.all = determined && quick.accept(got, accepted.data());
  told.narrow = determined && known.narrow;
  if (!told.all) std::ranges::fill(decided, Decided::unknown);
  if (determined && !told.all) {
    Index inside = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if ((accepted[i / 8] >> i % 8 & 1) == 0 && !quick.surely_inside(of(i), got[i])) continue;
      decided[i] = Decided::inside;
      ++inside;
    }
    told.all = inside == problem_.hidden;
    told.unsure = inside;
  }
  if (determined) {
    if (told.all) told.unsure = problem_.hidden;
    if (told.narrow) told.unsure = 0;
    told.narrow |= some_narrow;
    // One of a few is enough, if it is judged.
    for (std::size_t i = 0; i < std::min<std::size_t>(n, 4) && told.unsure > 0 && !told.narrow; ++i)
      told.narrow = (told.all || decided[i] == Decided::inside) && quick.surely_not_wide(of(i));
  } else if (known.undetermined || known.lost) {
    for (std::size_t i = 0; i < n; ++i) decided[i] = tell_unbounded(known.lost, i, got[i]);
  }
  return told;
}

// Of an element of a row whose variance may overflow, or whose elements nothing bounds.
std::uint8_t LayerNormOracle::tell_unbounded(bool lost, std::size_t i, double got) const {
  const double gamma = params_.gamma.empty() ? 1 : params_.gamma[i] + numbers_.gamma_offset;
  const double beta = params_.beta.empty() ? 0 : params_.beta[i];
  if (!std::isfinite(gamma) || !std::isfinite(beta)) return Decided::unknown;
  const bool is_beta = got == round_(round_to(numbers_.affine.format, beta));
  if (lost) return numbers_.clamp || !std::isfinite(got) || is_beta ? Decided::undetermined : Decided::unknown;
  if (gamma != 0) return !numbers_.rms || source_.x[i] != 0 ? Decided::undetermined : Decided::unknown;
  // Nothing is left of what is not bounded.
  return is_beta && std::isfinite(got) && numbers_.gamma_offset == 0 && !numbers_.affine_loses_params ? Decided::inside : Decided::unknown;
}

// Decides what is left of a row by the whole of its statistics.
void LayerNormOracle::decide_rest(DecideRow& decide, std::span<const double> got, std::span<std::uint8_t> decided,
                                  std::span<std::uint8_t> scratch) {
  if (!decide_open_row(got, scratch)) decide(source_, statistics(), got, scratch);
  std::ranges::transform(decided, scratch, decided.begin(),
                         [](auto first, auto second) { return first == Decided::unknown ? second : first; });
}

Verdict LayerNormOracle::judge_rows(const Tensor& out, const Tensor& sum_out, Levels levels) {
  Verdict verdict = Verdict::pass();
  Counts& counts = verdict.counts;
  QuickRow quick(numbers_, params_, inputs_.epsilon, round_);
  DecideRow decide(numbers_, params_, round_);
  const auto n = static_cast<std::size_t>(problem_.hidden);
  std::vector<double> got(static_cast<std::size_t>(padded(problem_.hidden)));
  std::vector<std::uint8_t> accepted(got.size() / 8), decided(got.size(), Decided::unknown), scratch(got.size());
  Index unsure = 0;          // elements that are inside, and perhaps wide
  bool some_narrow = false;  // one that is judged surely is not
  for (const Index row : attest::layer_norm::judged_rows(problem_)) {
    enter(row);
    read(out, row, got);
    Told told;
    if (levels != Levels::whole) {
      told = tell(quick, levels, some_narrow, got, accepted, decided);
      if (told.all) counts.judged += problem_.hidden;
      else if (std::ranges::count(std::span(decided).first(n), Decided::unknown) > 0) decide_rest(decide, got, decided, scratch);
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
      counts.wide += is_wide(of_element.enclosure);
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
  if (unsure > 0 && !some_narrow && counts.wide + unsure >= counts.judged)
    return judge_rows(out, sum_out, Levels::counting);
  if (counts.judged > 0 && counts.wide == counts.judged) return Verdict::vacuous("wide", counts);
  counts.wide = 0;
  return verdict;
}

Verdict LayerNormOracle::judge(const Tensor& out, const Tensor& sum_out, oracle::Statistics* statistics) {
  if (statistics) *statistics = statistics_of(out);
  return judge_rows(out, sum_out, Levels::quick);
}
Verdict LayerNormOracle::judge_slowly(const Tensor& out, const Tensor& sum_out) {
  return judge_rows(out, sum_out, Levels::whole);
}

}  // namespace attest::oracle::layer_norm
