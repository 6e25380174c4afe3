#pragma once
#include <array>

#include "core/inputs.hpp"
#include "core/mha/problem.hpp"
#include "core/tensor.hpp"

namespace attest::mha {

// One call as a block sees it (attest_mha in attest/plugin.h). x, memory, out [b,tokens,e]; w_q, w_k, w_v [width,e];
// w_out [e,q_width]; biases [width] or absent; bias and keep [b,heads,l,m] and kv_lengths [b], or absent. Memory is x
// for self-attention.
struct Call {
  attest_tensor x, memory, w_q, w_k, w_v, w_out, b_q, b_k, b_v, b_out, bias, keep, kv_lengths, out;
  Index heads = 1, kv_heads = 1, head_dim = 1;
  bool causal = false;
  Align align = Align::top_left;
  double scale = 1;
  bool scale_is_default = false;
  Index threads = 0;
  // The stages that a block is asked to return, of those that it offers; those not asked for are absent. q
  // [b,heads,l,head_dim] before any scale, k and v [b,kv_heads,m,head_dim], and the concatenated heads [b,l,q_width],
  // as the next stage takes them.
  struct Stages {
    attest_tensor q, k, v, heads;
  };
  Stages stages{};

  [[nodiscard]] Index b() const noexcept { return x.shape[0]; }
  [[nodiscard]] Index l() const noexcept { return x.shape[1]; }
  [[nodiscard]] Index m() const noexcept { return memory.shape[1]; }
  [[nodiscard]] Index e() const noexcept { return x.shape[2]; }
  [[nodiscard]] Index q_width() const noexcept { return heads * head_dim; }
  [[nodiscard]] Index kv_width() const noexcept { return kv_heads * head_dim; }
  [[nodiscard]] Index group() const noexcept { return heads / kv_heads; }
};

struct Inputs;
// Values from the seed, without libm but for one square root: the same bits everywhere. Throws what validate() throws.
Inputs materialise(const Problem& problem);

// The tensors of a problem. Where it is packed, w_q and b_q hold the others too, which are absent.
struct Inputs {
  Problem problem;
  Tensor x, memory, w_q, w_k, w_v, w_out, b_q, b_k, b_v, b_out, bias, keep, kv_lengths;

  // Points into *this and `out`.
  [[nodiscard]] Call call(const Tensor& out) const noexcept;
  // Returns the tensors that are present, by their names.
  [[nodiscard]] std::vector<attest::Inputs::Named> named() const;
  [[nodiscard]] Inputs clone() const;

 private:
  friend Inputs materialise(const Problem& problem);
  std::array<std::int64_t, 2> q_shape_{}, kv_shape_{};  // the parts of one buffer
};

// Poisoned, in the problem's layout; `fence`: what guards and gaps hold (core/tensor.hpp).
Tensor make_out(const Problem& problem, std::uint64_t fence = Tensor::plain_fence);

// Poisoned tensors for the stages of a problem's block.
struct StageOutputs {
  Tensor q, k, v, heads;
  [[nodiscard]] Call::Stages views() const noexcept { return {q.view(), k.view(), v.view(), heads.view()}; }
};
StageOutputs make_stages(const Problem& problem, DType type);

// Returns the heads' attention of a call: the shape, and the masks that are no tensors.
attest::Problem attention_of(const Call& call, Format storage);

}  // namespace attest::mha
