// Fused scaled-dot-product attention for CUDA, a library of its own: it knows nothing of attest.
//
// f16, bf16 and f32, accumulated in f32 by fused multiply-adds, or (f32) on tensor cores in TF32. Any strides, counted
// in elements; keys in tiles with an online softmax; few queries over many keys are split over blocks, and merged.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace fused {

enum class Type { f16, bf16, f32 };

// [batch, heads, rows, columns]; strides of 0 broadcast. data is NULL where a tensor is absent.
struct Tensor {
  void* data;
  int64_t strides[4];
};

struct Problem {
  Type type;  // type of q, k, v and out
  int64_t batch, heads, kv_heads, queries, keys, width, value_width;
  Tensor q, k, v, out;
  Tensor bias, keep;  // [batch, heads, queries, keys]: added to the scores; bytes, 0 = masked
  bool bias_is_f32;   // else it has the type of q
  Tensor lengths;     // int32 [batch]: how many keys a sample has
  Tensor lse;         // [batch, heads, queries], to be written: f32, or
  bool lse_is_f64;
  float scale, softcap;  // softcap 0: none
  bool causal;           // key j is open to row i if j <= g(i)
  bool bottom_right;     // g(i) is i + (keys of the sample) - queries, else i
  int64_t left, right;   // windows around g(i); < 0: unbounded
  bool tensor_cores;     // f32 alone: both products in TF32
};

constexpr int64_t widest = 256;               // width and value_width
constexpr int64_t widest_tensor_cores = 128;  // with tensor_cores

// Bytes of device memory that attention() needs for itself, at a multiple of 16; of no particular contents.
size_t workspace_bytes(const Problem& problem);

// Enqueues the work on the stream. cudaErrorInvalidValue for what is not supported.
cudaError_t attention(const Problem& problem, void* workspace, cudaStream_t stream);

}  // namespace fused
