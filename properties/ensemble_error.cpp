// The errors of a result are no larger than those of conforming kernels on the same problem (docs/bounds.md, "The
// ensemble").
//
// R = rms(out - y) / max(floor, max_k rms(out_k - y)) <= 1.3, for kernels k that are drawn from the promised contract,
// in one of three draws of the values, beside 256 kernels each. It is a statistic, and no proof: kernels are a sample
// of those that keep the contract, so it warns and never fails. Where an element leaves its proven interval the law has
// no say.
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
  if (!outcome.found) return Verdict::pass(counts);
  Evidence evidence;
  evidence.tensor = "R";
  evidence.got = *std::ranges::min_element(outcome.r);
  evidence.expected = 1;
  evidence.hi = ensemble::largest_r;
  evidence.ratio = evidence.got / ensemble::largest_r;
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
  return ensemble_verdict(ensemble::ask(draw));
}

}  // namespace

Property ensemble_error() {
  return {
      "ensemble-error",
      "rms (out - y) <= 1.3 times the largest of kernels drawn from the contract",
      "the errors are not larger than those of conforming kernels on the same problem, in each of three draws of its "
      "values: finds what the proven bound, wide on long rows, permits. A statistic, no proof",
      Kind::statistical,
      not_asked,
      check,
      Asks::base_plan};
}

}  // namespace attest::properties
