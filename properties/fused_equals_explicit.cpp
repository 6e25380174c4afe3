// fused-equals-explicit: |f(x) - g(x)| <= hi - lo, g an explicit kernel under the same contract.
//
// Both lie in one enclosure, so that they differ by no more than its width. Implied by the policy bound of both; what
// it adds is the evidence: how far each of the two is off. Applies if a second subject is given that can do the
// problem.
#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Verdict check_fused_equals_explicit(Trial& trial) {
  if (!trial.peer()) return Verdict::skip("no explicit kernel beside it");
  if (trial.peer()->info().name == trial.subject().info().name)
    return Verdict::skip("the subject is that explicit kernel");
  trial.base();
  const Result* peer = trial.peer_base();
  if (!peer) return Verdict::skip("the explicit kernel cannot do this problem");
  const std::string& name = trial.peer()->info().name;
  Verdict verdict = within_enclosures(trial, peer->out, peer->lse, name);
  // The contract may promise more than the explicit kernel does: then it proves nothing against the subject.
  if (verdict.kind == VerdictKind::fail && trial.judgement().kind != VerdictKind::fail)
    return Verdict::skip("the explicit kernel does not keep this contract");
  return verdict;
}

}  // namespace

Property fused_equals_explicit() {
  return {"fused-equals-explicit",
          "|f(x) - g(x)| <= hi - lo, g explicit",
          "the subject and an explicit kernel under the same contract differ by no more than both may",
          Kind::bound,
          always,
          check_fused_equals_explicit,
          Asks::anything,
          Claim::pair};
}

}  // namespace attest::properties
