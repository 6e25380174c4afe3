// The statistical tiers of the oracle (docs/bounds.md, "Tiers two and three"), with thresholds from calibration data.
//
// statistical-bound: |out - y| <= 1.05 lambda s + bias for every element. It warns above lambda 5, and above 4
// where so many elements as there are seldom need as much.
// aggregate-error: T, the rms of |out - y| / s over a result of 48 elements or more, is at most 1.3 times the largest of
// conforming kernels of the same policy and class of values, or what few independent errors may come to.
//
// Neither is a proof, and neither fails anything: they warn. Where the proven bound fails both have no say, nor have they of
// a contract that errs to one side.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "properties/ensemble.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/statistical.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

using oracle::CalibrationCell;
using oracle::Statistics;
using oracle::Thresholds;

std::optional<std::string> has_statistics(const Problem&, const Contract& contract, const SubjectInfo&) {
  const std::string_view refusal = oracle::statistical_refusal(contract);
  return refusal.empty() ? std::nullopt : std::optional(std::string(refusal));
}

std::optional<std::string> has_aggregate(const Problem& problem, const Contract& contract, const SubjectInfo& info) {
  if (auto refusal = has_statistics(problem, contract, info)) return refusal;
  if (problem.b * problem.hq * problem.lq * problem.dv < oracle::least_elements)
    return fmt::format("out has fewer than {} elements", oracle::least_elements);
  if (oracle::outputs_alike(problem)) return "too few errors that differ";
  return std::nullopt;
}

// How rare an element that needs this lambda is, were errors normal: they are bounded, and so rarer still.
double chance_of(double lambda) { return std::erfc(lambda * std::numbers::sqrt2 / 2); }

// Whether the largest of so many normal errors needs this lambda less than once in a thousand results. s may be all that a row of few
// keys errs by, and of 8,192 elements one may well be at 4.2.
bool is_rare(double lambda, Index elements) { return chance_of(lambda) * static_cast<double>(elements) < 1e-3; }

std::string rarity(double lambda) {
  const double chance = chance_of(lambda);
  return chance > 0 ? fmt::format("once in {:.1g} normal errors", 1 / chance)
                    : std::string("less than once in 1e300 normal errors");
}

Evidence element_evidence(const NearElement& element, const Statistics& statistics, const Thresholds& thresholds,
                          double limit) {
  Evidence evidence;
  evidence.tensor = "out";
  evidence.index = statistics.index;
  evidence.got = element.got;
  evidence.expected = element.expected;
  evidence.lo = element.lo;
  evidence.hi = element.hi;
  evidence.ratio = statistics.largest_lambda / limit;
  evidence.wrong = Wrong::finite;
  evidence.note = fmt::format("tier two, no proof: lambda {:.3g} where {:.3g} is permitted, {}",
                              statistics.largest_lambda, limit, rarity(statistics.largest_lambda));
  if (thresholds.cell != nullptr)
    evidence.note += fmt::format("; conforming kernels needed {:.3g} at most, in {} elements", thresholds.cell->lambda,
                                 thresholds.cell->lambda_elements);
  return evidence;
}

Verdict warning(Evidence evidence, Counts counts) { return {VerdictKind::warn, {}, std::move(evidence), counts}; }

}  // namespace

Verdict statistical_bound_verdict(const Verdict& proven, const Statistics& statistics, const Thresholds& thresholds,
                                  const std::function<NearElement(double)>& element) {
  if (proven.kind == VerdictKind::fail) return left_to_the_bound();
  for (const double limit : {thresholds.fail, thresholds.warn})
    if (statistics.largest_lambda > limit &&
        (limit == thresholds.fail || is_rare(statistics.largest_lambda, proven.counts.judged)))
      return warning(element_evidence(element(limit), statistics, thresholds, limit), proven.counts);
  if (proven.counts.judged == 0) return Verdict::vacuous("undetermined", proven.counts);
  return Verdict::pass(proven.counts);
}

Verdict statistical_bound_verdict(const Verdict& proven, const Statistics& statistics, const Thresholds& thresholds,
                                  oracle::Oracle& oracle, const Tensor& out) {
  return statistical_bound_verdict(proven, statistics, thresholds, [&](double lambda) -> NearElement {
    const auto [b, h, i, c] = statistics.index;
    const oracle::StatisticalEnclosure permitted = oracle.statistical_enclosure(b, h, i, c, lambda);
    const Format type = format_of(out.dtype());
    return {out.at(b, h, i, c), oracle.out_enclosure(b, h, i, c).y, round_to(type, permitted.lo),
            round_to(type, permitted.hi)};
  });
}

Verdict aggregate_error_verdict(const Statistics& statistics, const Thresholds& thresholds,
                                const std::function<double(double most)>& slow_t) {
  const Counts counts{statistics.elements, 0, 0};
  const double most = oracle::largest_t(*thresholds.t, statistics);
  if (statistics.t() <= most) return Verdict::pass(counts);
  const double t = slow_t ? std::min(statistics.t(), slow_t(most)) : statistics.t();
  if (t <= most) return Verdict::pass(counts);
  const CalibrationCell& cell = *thresholds.cell;
  Evidence evidence;
  evidence.tensor = "T";
  evidence.got = t;
  evidence.expected = cell.t50;
  evidence.hi = most;
  evidence.ratio = t / most;
  evidence.wrong = Wrong::finite;
  evidence.note = fmt::format(
      "tier three, no proof: over {} elements of out; the largest of {} results of conforming "
      "kernels is {:.3g}",
      statistics.elements, cell.results, cell.t);
  return warning(std::move(evidence), counts);
}

std::string not_calibrated(std::string_view policy, std::string_view calibrated_class) {
  return fmt::format("not calibrated: {}, {}", policy, calibrated_class);
}

namespace {

Verdict check_elements(Trial& trial) {
  const Verdict& proven = trial.judgement();
  if (proven.kind == VerdictKind::fail) return left_to_the_bound();
  return statistical_bound_verdict(proven, trial.statistics(), trial.thresholds(), trial.oracle(), trial.base().out);
}

Verdict check_aggregate(Trial& trial) {
  if (trial.judgement().kind == VerdictKind::fail) return left_to_the_bound();
  const Statistics& statistics = trial.statistics();
  if (statistics.elements < oracle::least_elements)
    return Verdict::skip(
        fmt::format("fewer than {} elements have an estimate, or few keys all weights", oracle::least_elements));
  const Thresholds& thresholds = trial.thresholds();
  if (!thresholds.t)
    return Verdict::skip(not_calibrated(to_text(trial.contract().policy), oracle::calibration_class(trial.problem())));
  return aggregate_error_verdict(statistics, thresholds,
                                 [&](double most) { return trial.oracle().second_look(trial.base().out, most); });
}

}  // namespace

Property statistical_bound() {
  return {"statistical-bound",
          "|out - y| <= 1.05 lambda s + bias, lambda 5",
          "each element is where those of conforming kernels lie, as a rule. Warns, and fails nothing: ensemble-error "
          "does",
          Kind::statistical,
          has_statistics,
          check_elements,
          Asks::base_call};
}

Property aggregate_error() {
  return {"aggregate-error",
          "rms (out - y) / s <= 1.3 times the largest of conforming kernels",
          "the errors of a whole result are not larger than those measured of conforming kernels. Warns, and fails "
          "nothing: ensemble-error does",
          Kind::statistical,
          has_aggregate,
          check_aggregate,
          Asks::base_call};
}

}  // namespace attest::properties
