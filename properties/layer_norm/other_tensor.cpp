// other-x, other-residual, other-gamma, other-beta: RN(lo') <= f(x') <= RN(hi'), x' = x but for the contents of one
// tensor.
//
// The law makes the base call once more, on the same buffers, one of them rewritten (properties/other_contents.hpp): a
// result that is kept from call to call without a look at that tensor shows.
#include "core/rng.hpp"
#include "properties/layer_norm/laws.hpp"
#include "properties/layer_norm/preconditions.hpp"
#include "properties/other_contents.hpp"

namespace attest::properties::layer_norm {
namespace {

using attest::layer_norm::Residual;
using attest::layer_norm::Weights;

Verdict check_other(const Trial& trial, Tensor Inputs::*tensor, const char* name) {
  Problem seeded = trial.problem;
  const std::uint64_t random = mix(seeded.seed ^ 0x6F74686572);
  seeded.seed = extend(random, 1);
  seeded.edits.clear();
  const Inputs other = materialise(seeded);
  const attest_tensor own = (trial.inputs.*tensor).view(), donor = (other.*tensor).view();
  if (!make_other(own, donor, drawn_change(extend(random, 2)), extend(random, 3)))
    return Verdict::skip("no other contents");
  const Exchanged contents(own, donor);
  const Tensor out = trial.asked(trial.inputs);
  Verdict verdict = oracle::layer_norm::LayerNormOracle(trial.contract, trial.problem, trial.inputs).judge(out, {});
  if (verdict.evidence) verdict.evidence->note = with_other(name, same_contents(trial.out.view(), out.view()));
  return verdict;
}

Reason no_rows(const Problem& p, const Contract&) { return p.rows == 0 ? Reason("no output elements") : std::nullopt; }
Reason no_residual(const Problem& p, const Contract& contract) {
  return p.residual == Residual::none ? Reason("no residual") : no_rows(p, contract);
}
Reason no_gamma(const Problem& p, const Contract& contract) {
  return p.gamma == Weights::none ? Reason("no gamma") : no_rows(p, contract);
}
Reason no_beta(const Problem& p, const Contract& contract) {
  return p.beta == Weights::none ? Reason("no beta") : no_rows(p, contract);
}

Law other(std::string_view name, std::string_view statement, std::string_view doc,
          Reason (*not_applicable)(const Problem&, const Contract&), Verdict (*check)(const Trial&)) {
  return {name, statement, doc, Kind::bound, not_applicable, check};
}

}  // namespace

Law other_x() {
  return other("other-x", "RN(lo') <= f(x', r, gamma, beta) <= RN(hi')",
               "with other contents in x alone the result is that of the new problem", no_rows,
               [](const Trial& trial) { return check_other(trial, &Inputs::x, "x"); });
}
Law other_residual() {
  return other("other-residual", "RN(lo') <= f(x, r', gamma, beta) <= RN(hi')",
               "with other contents in residual alone the result is that of the new problem", no_residual,
               [](const Trial& trial) { return check_other(trial, &Inputs::residual, "residual"); });
}
Law other_gamma() {
  return other("other-gamma", "RN(lo') <= f(x, r, gamma', beta) <= RN(hi')",
               "with other contents in gamma alone the result is that of the new problem", no_gamma,
               [](const Trial& trial) { return check_other(trial, &Inputs::gamma, "gamma"); });
}
Law other_beta() {
  return other("other-beta", "RN(lo') <= f(x, r, gamma, beta') <= RN(hi')",
               "with other contents in beta alone the result is that of the new problem", no_beta,
               [](const Trial& trial) { return check_other(trial, &Inputs::beta, "beta"); });
}

}  // namespace attest::properties::layer_norm
