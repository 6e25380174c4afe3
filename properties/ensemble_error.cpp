// The errors of a result are no larger than those of conforming kernels on the same problem (docs/bounds.md, "The ensemble").
//
// R = rms(out - y) / max(floor, max_k rms(out_k - y)) <= 1.3, and E, the largest |out - y| / (max_k |out_k - y| + ulp), <= 3, of
// kernels k that are drawn from the promised contract, in each of three draws of the values, beside 256 kernels each. A statistic, and
// no proof: it warns, since kernels that take each number of their contract to its end were seen beyond it (tests/hostile). Where an
// element leaves its proven interval the law has no say.
#include <algorithm>

#include "ensemble/redraws.hpp"
#include "ensemble/sample.hpp"
#include "properties/ensemble.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {

Verdict left_to_the_bound() { return Verdict::skip("an element leaves its proven interval"); }

Verdict ensemble_verdict(const ensemble::Outcome& outcome) {
  const Counts counts{static_cast<std::int64_t>(outcome.elements), 0, 0};
  if (outcome.elements == 0) return Verdict::vacuous("no element is finite in all kernels");
  if (!outcome.found.any()) return Verdict::pass(counts);
  Evidence evidence;
  const double r = *std::ranges::min_element(outcome.r);
  if (outcome.found.e) {
    const ensemble::Standing::Element& worst = outcome.worst;
    const double permitted = outcome.limits.e * (worst.member + worst.ulp);
    evidence.tensor = "out";
    evidence.index = worst.place;
    evidence.got = worst.got;
    evidence.expected = worst.exact;
    evidence.lo = worst.exact - permitted;
    evidence.hi = worst.exact + permitted;
    evidence.ratio = outcome.e.front() / outcome.limits.e;
  } else {
    evidence.tensor = "R";
    evidence.got = r;
    evidence.expected = 1;
    evidence.hi = outcome.limits.r;
    evidence.ratio = r / outcome.limits.r;
  }
  evidence.wrong = Wrong::finite;
  evidence.note = in_words(outcome);
  return {VerdictKind::warn, {}, std::move(evidence), counts};
}

namespace {

std::optional<std::string> not_asked(const Problem& problem, const Contract& contract, const SubjectInfo&) {
  const auto refusal = ensemble::refusal(problem, contract);
  return refusal ? std::optional(std::string(*refusal)) : std::nullopt;
}

Verdict check(Trial& trial) {
  if (trial.judgement().kind == VerdictKind::fail) return left_to_the_bound();
  ensemble::Redraws redraws(trial.problem());
  const auto draw = [&](int n) {
    if (n == 0) return ensemble::sample(trial.problem(), trial.contract(), trial.inputs(), trial.base().out);
    const auto& [problem, inputs] = redraws(n);
    const Result result = trial.run(inputs, problem);
    return ensemble::sample(problem, trial.contract(), inputs, result.out);
  };
  return ensemble_verdict(ensemble::ask(draw, ensemble::drawn_again(trial.problem()), trial.asks_briefly()));
}

}  // namespace

Property ensemble_error() {
  return {
      "ensemble-error",
      "rms (out - y) <= 1.3 times the largest of kernels drawn from the contract; |out - y| <= 3 times, per element",
      "the errors are not larger than those of conforming kernels on the same problem, in each of three draws of its "
      "values: finds what the proven bound, wide on long rows, permits. A statistic, no proof",
      Kind::statistical,
      not_asked,
      check,
      Asks::base_plan};
}

}  // namespace attest::properties
