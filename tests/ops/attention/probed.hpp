#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "core/attention/call.hpp"
#include "core/inputs.hpp"
#include "core/subject.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "kernels/registry.hpp"

// Subjects that promise one contract and compute under another.
namespace attest::test {

using Answer = std::function<void(const attest_attention&)>;

class Probed final : public Subject {
 public:
  Probed(Contract promise, Answer answer) : answer_(std::move(answer)) {
    const Format dtype = promise.policy[Stage::storage];
    info_.name = "probed";
    info_.dtypes = {dtype};
    info_.policies = {promise.policy};
    info_.arithmetic = {promise.arithmetic};
    info_.semantics = std::move(promise);
    info_.supports = Supports::everything();
  }
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    for (const Call& call : calls) answer_(call.as<attest_attention>());
    return std::vector<CallResult>(calls.size());
  }
  SubjectInfo& said() noexcept { return info_; }

 private:
  SubjectInfo info_;
  Answer answer_;
};

inline Answer kernel_answer(const kernels::KernelEntry& kernel, const Contract& contract) {
  return [&kernel, contract](const attest_attention& call) { kernel.run(call, contract); };
}

// ---- the emulator, which takes inputs and a problem, not a call -----------------------------------------------------

inline Tensor copied(const attest_tensor& from) {
  if (from.ndim == 0) return {};
  Tensor to(dtype_of(from.dtype).value(), {from.shape, static_cast<std::size_t>(from.ndim)});
  const auto extent = [&](int axis) { return axis < from.ndim ? from.shape[axis] : Index{1}; };
  for (Index a = 0; a < extent(0); ++a)
    for (Index b = 0; b < extent(1); ++b)
      for (Index c = 0; c < extent(2); ++c)
        for (Index d = 0; d < extent(3); ++d) to.set(a, b, c, d, load(from, a, b, c, d));
  return to;
}

inline void copy_back(const Tensor& from, const attest_tensor& to) {
  if (to.ndim == 0) return;
  const auto extent = [&](int axis) { return axis < to.ndim ? to.shape[axis] : Index{1}; };
  for (Index a = 0; a < extent(0); ++a)
    for (Index b = 0; b < extent(1); ++b)
      for (Index c = 0; c < extent(2); ++c)
        for (Index d = 0; d < extent(3); ++d) store(to, a, b, c, d, from.at(a, b, c, d));
}

// A scheme for each call, drawn from `seed` among those that `contract` permits.
inline Answer emulated_answer(const Contract& contract, std::uint64_t seed) {
  return [contract, seed](const attest_attention& call) {
    Inputs inputs;
    const std::pair<Tensor Inputs::*, const attest_tensor*> tensors[] = {
        {&Inputs::q, &call.q},       {&Inputs::k, &call.k},       {&Inputs::v, &call.v},
        {&Inputs::bias, &call.bias}, {&Inputs::keep, &call.keep}, {&Inputs::kv_lengths, &call.kv_lengths}};
    for (const auto& [member, tensor] : tensors) inputs.*member = copied(*tensor);
    inputs.scale = call.scale;
    inputs.softcap = call.softcap;
    inputs.causal = call.causal != 0;
    inputs.align = call.align != 0 ? Align::bottom_right : Align::top_left;
    inputs.window_left = call.window_left;
    inputs.window_right = call.window_right;
    Problem problem;
    problem.b = call.q.shape[0];
    problem.hq = call.q.shape[1];
    problem.lq = call.q.shape[2];
    problem.d = call.q.shape[3];
    problem.hkv = call.k.shape[1];
    problem.lk = call.k.shape[2];
    problem.dv = call.v.shape[3];
    problem.dtype = format_of(dtype_of(call.q.dtype).value());
    problem.scale = call.scale;
    problem.softcap = call.softcap;
    if (call.bias.ndim != 0) problem.bias = Bias::zero;
    const emulator::Variant variant = emulator::draw_variant(contract, problem, seed);
    Tensor out = copied(call.out), lse = copied(call.lse);
    emulator::run(inputs, contract, variant, out, lse);
    copy_back(out, call.out);
    copy_back(lse, call.lse);
  };
}

}  // namespace attest::test
