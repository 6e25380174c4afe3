// result-class: a NaN or an infinity comes out only where the contract or the enclosure permits one.
//
// Looks at every element of out and lse, rows that the policy bound does not sample included, and asks the oracle
// about those that are not finite: permitted are the contract's empty rows, what overflows in a declared format, and
// what non-finite inputs bring along (docs/bounds.md, section 5). Applies always. A finite number where a NaN is due
// is left to policy-bound.
#include "oracle/outcome.hpp"
#include "properties/compare.hpp"
#include "properties/nonfinite.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

// Judges the elements of one tensor that are not finite, if it has any; true if all of them may be so.
template <class EnclosureOf>
bool judge(const char* name, const Tensor& tensor, bool finite, const oracle::Rounding& round,
           EnclosureOf&& enclosure_of, Verdict& verdict) {
  verdict.counts.judged += tensor.size();
  if (finite) return true;
  for_each_nonfinite(tensor, [&](std::array<Index, 4> index) {
    const oracle::Enclosure enclosure = enclosure_of(index);
    const double got = tensor.at(index[0], index[1], index[2], index[3]);
    const oracle::Outcome outcome = judge_element(enclosure, round, got);
    if (outcome == oracle::Outcome::undetermined) --verdict.counts.judged, ++verdict.counts.undetermined;
    if (outcome != oracle::Outcome::outside) return true;
    Evidence evidence = evidence_of(enclosure, round, got);
    evidence.tensor = name;
    evidence.index = index;
    verdict = Verdict::fail(std::move(evidence), verdict.counts);
    return false;
  });
  return verdict.kind == VerdictKind::pass;
}

Verdict check_result_class(Trial& trial) {
  const Result& base = trial.base();
  Verdict verdict = Verdict::pass();
  const auto of_out = [&](const auto& i) { return trial.oracle().out_enclosure(i[0], i[1], i[2], i[3]); };
  const auto of_lse = [&](const auto& i) { return trial.oracle().lse_enclosure(i[0], i[1], i[2]); };
  if (judge("out", base.out, base.out_finite, out_rounding(trial.contract(), base.out), of_out, verdict) &&
      base.lse.present())
    judge("lse", base.lse, base.lse_finite, lse_rounding(trial.contract(), base.lse), of_lse, verdict);
  return verdict;
}

}  // namespace

Property result_class() {
  return {"result-class",
          "isfinite(out) wherever every conforming result is finite",
          "no NaN or infinity where the inputs and the declared formats cannot give one",
          Kind::guard,
          always,
          check_result_class,
          Asks::base_call,
          Claim::element};
}

}  // namespace attest::properties
