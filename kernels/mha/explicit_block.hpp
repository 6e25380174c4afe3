#pragma once
#include <array>
#include <utility>

#include "kernels/explicit/explicit.hpp"
#include "kernels/mha/block.hpp"

namespace attest::kernels {

inline mha::Contract explicit_block_contract(const mha::Policy& policy) {
  mha::Contract contract = mha::contract_for(policy);
  contract.attention = explicit_contract(policy.attention);
  return contract;
}

// A bias is added to what is stored already.
struct SeparateBias : BlockSteps {
  static constexpr bool separate_bias = true;
};
inline mha::Contract separate_block_contract(const mha::Policy& policy) {
  mha::Contract contract = explicit_block_contract(policy);
  contract.projections[static_cast<std::size_t>(mha::Projected::rounded)] = false;
  contract.projections[static_cast<std::size_t>(mha::Projected::separate)] = true;
  return contract;
}

template <class Real, class Steps>
void run_explicit_block(const mha::Call& call, const mha::Contract& contract) {
  const Policy& policy = contract.attention.policy;
  const Format storage = policy[Stage::storage], gemm = Steps::gemm(contract);
  const DType type = dtype_of(storage);
  const Index d = call.head_dim;
  const auto project_heads = [&](int projection, const attest_tensor& tokens, Index heads) {
    const Index count = tokens.shape[1], width = heads * d;
    const Projection<Real> by = load_projection<Real, Steps>(call, projection, 0, width);
    Tensor result(type, std::array{call.b(), heads, count, d}, std::array{count * width, d, width, Index{1}});
    for (Index b = 0; b < call.b(); ++b) {
      const Rows<Real> rows = project(load_rows<Real>(tokens, b, 0, count), by, gemm, storage, Steps::separate_bias);
      for (Index i = 0; i < count; ++i)
        for (Index n = 0; n < width; ++n) result.set(b, n / d, i, n % d, static_cast<double>(rows(i, n)));
    }
    return result;
  };
  const Tensor q = project_heads(0, call.x, call.heads), k = project_heads(1, call.memory, call.kv_heads),
               v = project_heads(2, call.memory, call.kv_heads);
  for (const auto& [to, from] : {std::pair{&call.stages.q, &q}, {&call.stages.k, &k}, {&call.stages.v, &v}})
    give_stage(*to, *from);
  Tensor o(type, std::array{call.b(), call.heads, call.l(), d});
  attest_attention attention{};
  attention.struct_size = sizeof attention;
  attention.q = q.view();
  attention.k = k.view();
  attention.v = v.view();
  attention.out = o.view();
  attention.bias = call.bias;
  attention.keep = call.keep;
  attention.kv_lengths = call.kv_lengths;
  attention.scale = call.scale;
  attention.causal = call.causal ? 1 : 0;
  attention.align = static_cast<std::int32_t>(call.align);
  attention.window_left = attention.window_right = -1;
  attention.threads = static_cast<std::int32_t>(call.threads);
  attest::Contract of_heads = contract.attention;
  of_heads.policy.set(Stage::softmax, Steps::softmax(call, contract)).set(Stage::output, Steps::heads(contract));
  explicit_attention(attention, of_heads);
  const Projection<Real> by = load_out_projection<Real>(call);
  for (Index b = 0; b < call.b(); ++b) {
    Rows<Real> heads(call.l(), call.q_width());
    for (Index h = 0; h < call.heads; ++h)
      for (Index i = 0; i < call.l(); ++i)
        for (Index c = 0; c < d; ++c) {
          const typename Steps::Place to = Steps::concatenated(call, h, i, c);
          heads(to.token, to.column) = static_cast<Real>(o.at(b, h, i, c));
        }
    for (Index i = 0; i < call.l() && attest_present(&call.stages.heads); ++i)
      for (Index c = 0; c < call.q_width(); ++c)
        attest_store(&call.stages.heads, b, i, c, 0, static_cast<double>(heads(i, c)));
    store_rows(call, b, 0, project(heads, by, Steps::out_gemm(contract), policy[Stage::output], Steps::separate_bias));
  }
}

// Stage by stage: q, k and v whole, attention over them, the concatenated heads, the output projection.
template <class Steps>
void explicit_block(const mha::Call& call, const mha::Contract& contract) {
  check_storage(call, contract);
  if (block_computes_in_double(contract))
    run_explicit_block<double, Steps>(call, contract);
  else
    run_explicit_block<float, Steps>(call, contract);
}

}  // namespace attest::kernels
