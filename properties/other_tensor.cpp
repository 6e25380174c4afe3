// other-queries, other-keys, other-values, other-masks: RN(lo') <= f(x') <= RN(hi'), x' = x but for the contents
// of one tensor.
//
// The call is the base call, on the same buffers, with one of them rewritten: other-masks takes the bias, the keep mask
// or the key lengths, whichever the problem has. Its result lies in the enclosure of the changed problem, whatever the
// subject remembers of the call before. Applies always. Catches a result, or part of one, that is kept from call to
// call by the contents, the checksum or the address of some of the tensors: each law finds state that is kept without a
// look at its own tensor.
#include <vector>

#include "properties/compare.hpp"
#include "properties/other_contents.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

struct Which {
  Tensor Inputs::*tensor;
  const char* name;
};

Verdict check_other(Trial& trial, const Which& which, bool whole) {
  const Problem& p = trial.problem();
  const Inputs other = materialise(reseeded(p, 181));
  const attest_tensor own = (trial.inputs().*which.tensor).view(), donor = (other.*which.tensor).view();
  if (whole ? same_contents(own, donor) : !make_other(own, donor, drawn_change(draw(p, 182)), draw(p, 183)))
    return Verdict::skip("no other contents");
  const Result& base = trial.base();
  const Exchanged contents(own, donor);
  const Result result = trial.run(trial.inputs(), p);
  if (result.violation) return Verdict::fail(*result.violation);
  Verdict verdict = oracle::make_oracle(trial.contract(), p, trial.inputs())->judge(result.out, result.lse);
  if (!verdict.evidence) return verdict;
  Counts compared;
  const bool as_before = !difference(base, result, Equality::bits, "", compared);
  return noted(std::move(verdict), with_other(which.name, as_before));
}

Verdict check_queries(Trial& trial) { return check_other(trial, {&Inputs::q, "q"}, false); }
Verdict check_keys(Trial& trial) { return check_other(trial, {&Inputs::k, "k"}, false); }
Verdict check_values(Trial& trial) { return check_other(trial, {&Inputs::v, "v"}, false); }

// Masks are those of another seed, which the subject takes as it takes these.
Verdict check_masks(Trial& trial) {
  std::vector<Which> masks;
  for (const Which& mask : {Which{&Inputs::bias, "bias"}, {&Inputs::keep, "keep"}, {&Inputs::kv_lengths, "kv_lengths"}})
    if ((trial.inputs().*mask.tensor).present()) masks.push_back(mask);
  return check_other(trial, masks[below(draw(trial.problem(), 184), masks.size())], true);
}

Reason no_other_mask(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  if (p.bias == Bias::none && p.keep == Keep::none && p.lengths == Lengths::none) return "no mask is a tensor";
  return has_output(p, contract, info);
}

Property other(std::string_view name, std::string_view statement, std::string_view doc, Verdict (*check)(Trial&),
               Reason (*not_applicable)(const Problem&, const Contract&, const SubjectInfo&) = has_output) {
  return {name, statement, doc, Kind::bound, not_applicable, check, Asks::base_plan};
}

}  // namespace

Property other_queries() {
  return other("other-queries", "RN(lo') <= f(q', k, v) <= RN(hi')",
               "with other contents in q alone, on the same buffers, the result is that of the new problem: nothing is "
               "kept by k and v",
               check_queries);
}
Property other_keys() {
  return other("other-keys", "RN(lo') <= f(q, k', v) <= RN(hi')",
               "with other contents in k alone, on the same buffers, the result is that of the new problem: nothing is "
               "kept by q and v",
               check_keys);
}
Property other_values() {
  return other("other-values", "RN(lo') <= f(q, k, v') <= RN(hi')",
               "with other contents in v alone, on the same buffers, the result is that of the new problem: nothing is "
               "kept by q and k",
               check_values);
}
Property other_masks() {
  return other("other-masks", "RN(lo') <= f(x, m') <= RN(hi'), m the bias, keep mask or key lengths",
               "with other contents in one mask alone, on the same buffers, the result is that of the new problem: "
               "nothing is kept by q, k and v",
               check_masks, no_other_mask);
}

}  // namespace attest::properties
