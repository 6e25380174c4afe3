#include "tests/oracle/mha_draw.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/rng.hpp"

namespace attest::testing {

mha::Problem draw_block(Format dtype, std::uint64_t seed) {
  std::uint64_t key = mix(seed ^ 0x6d6861u);
  const auto pick = [&](Index n) { return static_cast<Index>(below(key = mix(key), static_cast<std::uint64_t>(n))); };
  mha::Problem p;
  p.dtype = dtype;
  p.seed = key;
  p.b = 1 + (pick(4) == 0 ? 1 : 0);
  p.kv_heads = 1 + pick(2);
  p.heads = p.kv_heads * (1 + (pick(3) == 0 ? 1 : 0));
  p.head_dim = pick(3) == 0 ? Index{1} << pick(4) : 1 + pick(7);
  p.e = pick(2) == 0 ? p.heads * p.head_dim : 1 + pick(32);
  p.l = 1 + pick(12);
  p.m = pick(3) == 0 ? 1 + pick(16) : Index{1} << pick(4);
  p.self = pick(3) == 0;
  if (p.self) p.m = p.l;
  p.packed = pick(3) == 0;
  p.causal = pick(4) == 0;
  p.align = pick(2) == 0 ? Align::top_left : Align::bottom_right;
  p.padding = pick(2) == 0 ? mha::Padding::none : static_cast<mha::Padding>(pick(5));
  p.biases = pick(3) != 0 ? mha::Biases::all : static_cast<mha::Biases>(pick(4));
  p.weights = pick(3) == 0 ? mha::Weights::dense : static_cast<mha::Weights>(pick(9));
  if (pick(3) == 0) p.scale = static_cast<double>(Index{1} << pick(7)) / 8 / static_cast<double>(p.head_dim);
  if (p.weights == mha::Weights::selection) p.scale = 256;
  if (pick(4) == 0) p.amplitude = static_cast<double>(Index{1} << pick(4)) / 2;
  if (pick(5) == 0) p.bias = static_cast<mha::Bias>(1 + pick(3));
  if (pick(3) == 0) {
    p.x_layout = static_cast<mha::Layout>(pick(6));
    p.weight_layout = static_cast<mha::Layout>(pick(mha::matrix_layout_count));
    p.memory_layout = pick(2) == 0 ? mha::Layout::tokens_first : mha::Layout::broadcast;
  }
  return p;
}

mha::Contract NamedBlockContract::contract() const {
  return mha::contract_from_json(nlohmann::json::parse(numbers), mha::policy_from_text(policy));
}

NamedBlockContract draw_block_contract(std::uint64_t seed) {
  constexpr const char* policies[] = {
      "f32",           "f16",     "bf16", "f16,gemm=f16", "f16-acc16", "f16-scores16",     "bf16-all",
      "f16-softmax16", "f16-all", "f64",  "f32",          "f16",       "f16-all,gemm=f32", "bf16,gemm=bf16"};
  constexpr const char* numbers[] = {
      R"({})",
      R"({"projections":"unrounded"})",
      R"({"projections":"unrounded","heads":"unrounded"})",
      R"({"projections":"separate"})",
      R"({"projections":["rounded","unrounded","separate"],"heads":["rounded","unrounded"]})",
      R"({"heads":"unrounded"})",
      R"({"gemm_chain":6})",
      R"({"gemm_chain":{"lanes":4}})",
      R"({"gemm_chain":{"lanes":2,"block":4},"projections":"unrounded"})",
      R"({"kappa":3})",
      R"({"kappa":3,"projections":"unrounded","heads":"unrounded"})",
      R"({"drops_b_k":true})",
      R"({"exp2":false,"fold":"none","lse_merge":"none","sum_of":"unrounded","normalise":"after"})",
      R"({"exp_ulp":2,"div_ulp":1,"normalise":["after","before","lse"]})",
      R"({"empty_row":"zero","masked_unread":true})",
      R"({"empty_row":"nan","kv_tile_min":4})"};
  std::uint64_t key = mix(seed ^ 0x636f6e74u);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(below(key = mix(key), n)); };
  return {policies[pick(std::size(policies))], numbers[pick(std::size(numbers))]};
}

NamedBlockContract draw_unit_contract(std::uint64_t seed) {
  constexpr const char* contracts[][2] = {
      {"f16", R"({"mma":"volta"})"},
      {"f16", R"({"mma":"ampere","projections":"unrounded"})"},
      {"bf16", R"({"mma":"hopper","projections":["rounded","separate"]})"},
      {"f16", R"({"mma":"8/25/f32/only","projections":"unrounded","heads":"unrounded"})"},
      {"bf16", R"({"mma":"hopper-fp8"})"},
      {"f16", R"({"mma":"cdna3","exp2":false,"lse_merge":"none","fold":"none"})"},
      {"f32,operand=tf32", R"({"mma":"ampere"})"},
      {"f32,operand=tf32", R"({})"},
      {"f32,operand=bf16", R"({"projections":"separate"})"},
      {"f16-acc16,gemm=f16", R"({"mma":"4/23/f16"})"},
      {"f16", R"({"mma":"3/5/e8m13"})"},
      {"f16", R"({"mma":"16/35/f32/only","flush_to_zero":true})"},
      {"f16", R"({"flush_to_zero":true})"},
      {"bf16", R"({"flush_to_zero":true,"projections":"separate"})"},
      {"f32", R"({"flush_to_zero":true,"projections":["rounded","unrounded"],"heads":["rounded","unrounded"]})"},
      {"f16,gemm=f16", R"({"flush_to_zero":true,"kappa":3,"projections":"unrounded","heads":"unrounded"})"},
      {"f16-all", R"({"flush_to_zero":true})"},
      {"f32,operand=tf32", R"({"mma":"ampere","flush_to_zero":true})"}};
  const auto& drawn = contracts[below(mix(seed ^ 0x756e6974u), std::size(contracts))];
  return {drawn[0], drawn[1]};
}

mha::Problem make_small(mha::Problem problem, std::uint64_t seed) {
  problem.amplitude = std::ldexp(1.0, min_exponent(problem.dtype) + static_cast<int>(below(mix(seed), 8)));
  if (below(mix(seed + 1), 2) == 0) problem.biases = mha::Biases::none;
  return problem;
}

}  // namespace attest::testing
