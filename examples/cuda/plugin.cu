// The kernel of fused_attention.cu as two subjects of attest: `fused`, by multiply-adds, and `tf32`, on tensor cores.
//
//   nvcc -std=c++17 -O3 -arch=native -Xcompiler -fPIC -shared -I include -o fused_attention.so
//        examples/cuda/plugin.cu examples/cuda/fused_attention.cu
//   attest fuzz ./fused_attention.so:fused
//
// docs/cuda.md walks through it.
#include <attest/cuda.hpp>

#include "fused_attention.cuh"

namespace {

fused::Tensor tensor_of(const attest::TensorView& view) {
  fused::Tensor tensor{};
  if (!view) return tensor;
  tensor.data = static_cast<char*>(view.raw().data) + view.raw().byte_offset;
  for (int axis = 0; axis < view.rank(); ++axis) tensor.strides[axis] = view.stride(axis);
  return tensor;
}

fused::Problem problem_of(const attest::Attention& call, bool tensor_cores) {
  fused::Problem p{};
  p.type = call.q.holds<attest::f16>()    ? fused::Type::f16
           : call.q.holds<attest::bf16>() ? fused::Type::bf16
                                          : fused::Type::f32;
  p.batch = call.batch(), p.heads = call.heads(), p.kv_heads = call.kv_heads();
  p.queries = call.queries(), p.keys = call.keys(), p.width = call.width(), p.value_width = call.value_width();
  p.q = tensor_of(call.q), p.k = tensor_of(call.k), p.v = tensor_of(call.v), p.out = tensor_of(call.out);
  p.bias = tensor_of(call.bias), p.keep = tensor_of(call.keep);
  p.bias_is_f32 = call.bias.holds<float>();
  p.lengths = tensor_of(call.kv_lengths), p.lse = tensor_of(call.lse), p.lse_is_f64 = call.lse.holds<double>();
  p.scale = static_cast<float>(call.scale), p.softcap = static_cast<float>(call.softcap);
  p.causal = call.causal, p.bottom_right = call.bottom_right;
  const std::int64_t all = p.queries + p.keys;  // no key is further from a diagonal
  p.left = std::min(call.window_left, all), p.right = std::min(call.window_right, all);
  p.tensor_cores = tensor_cores;
  return p;
}

template <bool tensor_cores>
void attention(const attest::Attention& call, cudaStream_t stream) {
  static thread_local attest::cuda::DeviceMemory workspace;  // kept, as a caller's would be
  const fused::Problem problem = problem_of(call, tensor_cores);
  char* const room = workspace.reserve(fused::workspace_bytes(problem));
  attest::cuda::check(fused::attention(problem, room, stream), "fused::attention");
}

// Policies: arithmetic in f32 on what is stored, weights included, so that nothing but the result is rounded to 16
// bits. exp_ulp: the CUDA C++ Programming Guide's appendix on mathematical functions puts expf at 1 ulp (2 in older
// editions) and tanhf at 2 from the correctly rounded result, by "extensive but not exhaustive tests". Division is
// correctly rounded (-prec-div=true, nvcc's default), and nothing is flushed to zero (-ftz=false).
// `far`: also asked with samples, heads or rows 2^32 elements apart, where a tensor takes some 16 GiB of the device.
std::string by_multiply_adds(bool far) {
  return std::string(R"({"ops": ["attention"], "device": "cuda:0", "dtypes": ["f32", "f16", "bf16"],
    "supports": {"bias_dtypes": ["same", "f32"], "dims": {"d": [1, 256, 1], "dv": [1, 256, 1]}, "far": )") +
         (far ? "true" : "false") + R"(},
    "contract": {
      "policy": {"f32": "f32", "f16": "f16,operand=f32,weights=f32", "bf16": "bf16,operand=f32,weights=f32"},
      "empty_row": "zero", "nan": "propagates", "masked_unread": true,
      "batch_invariant": "bitwise", "deterministic": "threads",
      "exp_ulp": 2.5, "exp2": false, "fold": "none", "lazy": 0, "kv_tile_min": 32, "key_order": "ascending",
      "normalise": ["after"], "sum_of": ["unrounded"], "splits_max": 16, "lse_merge": "flat"}})";
}

// Tensor cores: operands in TF32. Their sums are cut, not rounded to nearest: from Ampere on, the first that has TF32,
// as this says or finer. PTX leaves open what becomes of subnormal numbers and of NaN.
constexpr const char* on_tensor_cores = R"({"ops": ["attention"], "device": "cuda:0", "dtypes": ["f32"],
  "supports": {"bias_dtypes": ["same"], "dims": {"d": [1, 128, 1], "dv": [1, 128, 1]}},
  "contract": {
    "policy": {"f32": "f32,operand=tf32"}, "mma": "ampere", "flush_to_zero": true,
    "empty_row": "zero", "masked_unread": "beyond_length",
    "exp_ulp": 2.5, "exp2": false, "fold": "none", "lazy": 0, "kv_tile_min": 32, "key_order": "ascending",
    "normalise": ["after"], "sum_of": ["unrounded"], "splits_max": 1, "lse_merge": "none"}})";

}  // namespace

const attest_subject* attest_plugin(std::uint32_t abi, std::size_t* count) {
  static const attest::Plugin plugin{attest::cuda::subject("fused", by_multiply_adds(false), attention<false>, "1"),
                                     attest::cuda::subject("far", by_multiply_adds(true), attention<false>, "1"),
                                     attest::cuda::subject("tf32", on_tensor_cores, attention<true>, "1")};
  return plugin.table(abi, count);
}
