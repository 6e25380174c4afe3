// block-other-tokens, -weights, -biases, -masks: RN(lo') <= f(x') <= RN(hi'), x' = x but for the contents of one tensor
// of the kind.
//
// The law makes the base call once more, on the same buffers, one of them rewritten (properties/other_contents.hpp),
// drawn from those of its kind that the problem has: a result that is kept from call to call without a look at that
// tensor shows.
#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "core/rng.hpp"
#include "oracle/mha/mha.hpp"
#include "properties/mha/laws.hpp"
#include "properties/other_contents.hpp"

namespace attest::properties::block {
namespace {

struct Which {
  attest_tensor mha::Call::*tensor;
  std::string_view name;
};

Verdict check_other(const BlockTrial& trial, std::initializer_list<Which> kind, bool masks) {
  mha::Problem seeded = trial.problem();
  const std::uint64_t random = mix(seeded.seed ^ 0x6F74686572);
  seeded.seed = extend(random, 1);
  seeded.edits.clear();
  const mha::Inputs other = mha::materialise(seeded);
  const Tensor none;
  const mha::Call own_call = trial.inputs.call(none), donor_call = other.call(none);
  std::vector<Which> present;
  std::ranges::copy_if(kind, std::back_inserter(present), [&](const Which& which) {
    const bool is_x = which.tensor == &mha::Call::memory && trial.problem().self;
    return attest_present(&(own_call.*which.tensor)) && !is_x;
  });
  if (present.empty()) return Verdict::skip("no such tensor");
  const Which& which = present[below(extend(random, 2), present.size())];
  const attest_tensor own = own_call.*which.tensor, donor = donor_call.*which.tensor;
  // Masks are those of another seed, which the subject takes as it takes these.
  if (masks ? same_contents(own, donor) : !make_other(own, donor, drawn_change(extend(random, 3)), extend(random, 4)))
    return Verdict::skip("no other contents");
  const Exchanged contents(own, donor);
  const Tensor out = trial.ask(trial.inputs);
  const mha::Call call = trial.inputs.call(out);
  Verdict verdict = oracle::MhaOracle(trial.contract, call).judge(out);
  if (verdict.evidence) verdict.evidence->note = with_other(which.name, same_contents(trial.out.view(), out.view()));
  return verdict;
}

}  // namespace

Verdict other_tokens(const BlockTrial& trial) {
  return check_other(trial, {{&mha::Call::x, "x"}, {&mha::Call::memory, "memory"}}, false);
}
Verdict other_weights(const BlockTrial& trial) {
  return check_other(
      trial,
      {{&mha::Call::w_q, "w_q"}, {&mha::Call::w_k, "w_k"}, {&mha::Call::w_v, "w_v"}, {&mha::Call::w_out, "w_out"}},
      false);
}
Verdict other_biases(const BlockTrial& trial) {
  return check_other(
      trial,
      {{&mha::Call::b_q, "b_q"}, {&mha::Call::b_k, "b_k"}, {&mha::Call::b_v, "b_v"}, {&mha::Call::b_out, "b_out"}},
      false);
}
Verdict other_masks(const BlockTrial& trial) {
  return check_other(
      trial, {{&mha::Call::bias, "bias"}, {&mha::Call::keep, "keep"}, {&mha::Call::kv_lengths, "kv_lengths"}}, true);
}

}  // namespace attest::properties::block
