// compare-bits: A(x) = B(x), bit by bit, A and B two subjects.
//
// No contract claims it. `attest compare --bits` asks for it, to hold one version of a kernel against another that is
// to compute the same in the same order. -0 and +0 differ, and so do two NaNs of different payload.
#include "properties/compare.hpp"
#include "properties/pair.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Verdict check_compare_bits(Trial& trial) {
  if (!trial.peer()) return Verdict::skip("no second subject");
  const Result &a = trial.base(), &b = trial.peer_result();
  if (a.violation || b.violation) return Verdict::skip("memory was broken or left unwritten");
  Counts counts;
  auto evidence = difference(b, a, Equality::bits, "not bitwise equal", counts);
  if (!evidence) return Verdict::pass(counts);
  const Contract contract = trial.peer_contract();
  const auto oracle = oracle::make_oracle(contract, trial.problem(), trial.inputs());
  evidence->sides = sides_of(evidence->tensor == "lse" ? "lse" : "out", evidence->index,
                             {a.out, a.lse, trial.contract(), trial.oracle()}, {b.out, b.lse, contract, *oracle});
  return Verdict::fail(std::move(*evidence), counts);
}

}  // namespace

Property compare_bits() {
  return {"compare-bits",
          "A(x) = B(x), bit by bit",
          "two subjects give the same bits: no contract claims it, and it is asked by name",
          Kind::exact,
          has_output,
          check_compare_bits,
          Asks::base_call};
}

}  // namespace attest::properties
