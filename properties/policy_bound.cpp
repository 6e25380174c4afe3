// policy-bound: RN(lo) <= out <= RN(hi) and RN(lo) <= lse <= RN(hi) for every judged element.
//
// [lo, hi] is the oracle's rigorous enclosure (docs/bounds.md): every implementation that keeps the declared policy
// lands inside. Applies always.
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Verdict check_policy_bound(Trial& trial) { return trial.judgement(); }

}  // namespace

Property policy_bound() {
  return {"policy-bound",
          "RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)",
          "each element is one that a kernel of the declared precision policy could have returned",
          Kind::bound,
          always,
          check_policy_bound,
          Asks::base_call,
          Claim::element};
}

}  // namespace attest::properties
