// One watched call of a block.
#include <utility>

#include "core/mha/call.hpp"
#include "ops/mha/parts.hpp"
#include "properties/guarded.hpp"
#include "properties/pair.hpp"
#include "properties/trial.hpp"

namespace attest::ops::of_mha {
namespace {

// Wide enough for whatever the contract lets a stage leave.
DType type_of_stages(const Contract& contract) {
  const Format storage = contract.attention.policy[Stage::storage];
  const bool unrounded =
      contract.projections[static_cast<std::size_t>(attest::mha::Projected::unrounded)] || contract.heads_unrounded;
  return dtype_of(unrounded ? at_least_f32(storage) : storage);
}

}  // namespace

Answer asked(Subject& subject, const attest::mha::Inputs& inputs, const attest::mha::StageOutputs& stages,
             std::int64_t& calls, std::int64_t& elapsed) {
  Answer answer{make_out(inputs.problem, properties::fence_of(inputs.problem.seed, calls, 0)), {}, {}};
  const auto& offer = subject.info().mha.value();
  if (auto why = declined(inputs.problem, offer.supports, offer.dtypes)) {
    answer.call = {CallStatus::unsupported, std::move(*why), 0};
    return answer;
  }
  const std::vector<attest::Inputs::Named> tensors = inputs.named();
  properties::Snapshot before({&tensors, 1});
  attest::mha::Call call = inputs.call(answer.out);
  call.stages = stages.views();
  {
    const properties::Stopwatch watch(elapsed);
    answer.call = subject.run_one(as_plugin(call, inputs.problem.self));
  }
  ++calls;
  const std::optional<Evidence> modified = before.restore(tensors);
  if (answer.call.status != CallStatus::done) return answer;
  answer.violation = properties::output_violation(answer.out, "out");
  for (const auto& [name, stage] :
       {std::pair{"q", &stages.q}, {"k", &stages.k}, {"v", &stages.v}, {"heads", &stages.heads}})
    if (!answer.violation && stage->present()) answer.violation = properties::output_violation(*stage, name);
  if (!answer.violation) answer.violation = modified;
  return answer;
}

attest::mha::StageOutputs stages_to_ask(const Problem& problem, const Contract& contract, const SubjectInfo& info) {
  const Supports& supports = info.mha.value().supports;
  const Contract& said = info.declared ? info.declared->mha.value().contract(problem.dtype, info.name) : contract;
  attest::mha::StageOutputs stages = make_stages(problem, type_of_stages(said));
  int output = 0;  // out is the first
  for (Tensor* stage : {&stages.q, &stages.k, &stages.v, &stages.heads})
    stage->poison(properties::fence_of(problem.seed, 0, ++output));
  if (!supports.stage_q) stages.q = {};
  if (!supports.stage_k) stages.k = {};
  if (!supports.stage_v) stages.v = {};
  if (!supports.stage_heads) stages.heads = {};
  return stages;
}

}  // namespace attest::ops::of_mha
