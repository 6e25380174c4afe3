#pragma once
#include <algorithm>
#include <cstddef>

#include "attest/plugin.h"
#include "core/contract.hpp"
#include "core/problem.hpp"
#include "core/tensor.hpp"

namespace attest::kernels {

// A tensor as the kernels see it: the first element and four strides. Absent: no data.
struct View {
  std::byte* data = nullptr;
  DType type = DType::f32;
  std::array<Index, 4> strides{};

  explicit operator bool() const noexcept { return data != nullptr; }
  [[nodiscard]] std::byte* at(Index b, Index h, Index i = 0, Index j = 0) const noexcept {
    const Index element = b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3];
    return data + element * static_cast<Index>(size_of(type));
  }
};

// Returns the tensor read through its own strides. Throws Error(usage) for an element type that attention does not use.
View strided(const attest_tensor& tensor);

// Keys [lo, hi).
struct KeyRange {
  Index lo = 0, hi = 0;
  [[nodiscard]] bool empty() const noexcept { return hi <= lo; }
};

// One attention call: shapes, options and views, read out of the C struct once.
struct Call {
  Index b = 0, hq = 0, hkv = 0, lq = 0, lk = 0, d = 0, dv = 0;
  View q, k, v, bias, keep, kv_lengths, out, lse;
  Policy policy;
  double scale = 1;  // rounded to the format of the scale stage
  double softcap = 0;
  bool softcap_before_bias = true;
  EmptyRow empty_row = EmptyRow::zero;
  bool causal = false;
  Align align = Align::top_left;
  Index window_left = -1, window_right = -1;  // cut to lq + lk: wider ones mean the same
  int threads = 0;

  [[nodiscard]] Format operator[](Stage stage) const noexcept { return policy[stage]; }
  [[nodiscard]] Index group() const noexcept { return hq / hkv; }
  // Lb: how many keys sample b has.
  [[nodiscard]] Index length(Index sample) const noexcept;
  // Multiply-adds of the call.
  [[nodiscard]] double work() const noexcept;
};

// `view` says how q, k and v are addressed. Throws Error(usage) if the tensors are not of the policy's storage format.
Call make_call(const attest_attention& attention, const Contract& contract,
               View (*view)(const attest_tensor&) = strided);

// g(i): the key on the diagonal of row i.
constexpr Index diagonal(Align align, Index i, Index length, Index lq) noexcept {
  return align == Align::top_left ? i : i + length - lq;
}

// The keys that length, causality and window leave to a row whose diagonal is `diagonal`.
inline KeyRange open_range(const Call& call, Index diagonal, Index length) noexcept {
  KeyRange range{0, length};
  if (call.causal) range.hi = std::min(range.hi, diagonal + 1);
  if (call.window_right >= 0) range.hi = std::min(range.hi, diagonal + call.window_right + 1);
  if (call.window_left >= 0) range.lo = std::max(range.lo, diagonal - call.window_left);
  return range;
}

// Tells whether the arithmetic needs double: some stage is f64.
bool computes_in_double(const Policy& policy) noexcept;

}  // namespace attest::kernels
