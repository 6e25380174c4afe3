// compare-bound: |A(x) - B(x)| <= r_A + r_B, A and B two subjects, each with a contract of its own.
//
// Each result lies within the radius of its own enclosure, so that two that are right differ by no more than both
// radii. Where they differ further at least one of them is wrong, and the evidence says which. Where contracts leave a
// result open (a row without keys, an overflow), two that differ are a warning. A change of memory by only one of the
// two is a difference too.
#include "properties/pair.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Verdict check_compare_bound(Trial& trial) {
  if (!trial.peer()) return Verdict::skip("no second subject");
  const Result &a = trial.base(), &b = trial.peer_result();
  if (a.violation && !b.violation) return broken(*a.violation, true);
  if (b.violation && !a.violation) return broken(*b.violation, false);
  const Promised of_a{a.out, a.lse, trial.contract(), trial.oracle()};
  const Contract contract = trial.peer_contract();
  if (contract == trial.contract())
    return held_together(trial.problem(), of_a, {b.out, b.lse, contract, trial.oracle()});
  const auto oracle = oracle::make_oracle(contract, trial.problem(), trial.inputs());
  return held_together(trial.problem(), of_a, {b.out, b.lse, contract, *oracle});
}

}  // namespace

Property compare_bound() {
  return {"compare-bound",
          "|A(x) - B(x)| <= r_A + r_B",
          "two subjects, each within its own bound of the exact result, differ by no more than both bounds",
          Kind::bound,
          has_output,
          check_compare_bound,
          Asks::base_call};
}

}  // namespace attest::properties
