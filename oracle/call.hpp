#pragma once
#include <cstddef>
#include <cstdint>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "oracle/numbers.hpp"

namespace attest::oracle {

// Inputs that are known as intervals only: each element of q, k and v lies at most that far from the call's. A radius
// has any floating-point type and the shape of its tensor; an absent one is 0. Where a radius is infinite nothing is
// known of the element, not even that it is finite.
struct Radii {
  Tensor q, k, v;
};

// The inputs of one call, read by logical coordinates (attest/plugin.h says what they mean).
class Call {
 public:
  Call(const Contract& contract, const Problem& problem, const Inputs& inputs,
       RoundingMode rounding = RoundingMode::nearest, const Radii* radii = nullptr);

  const Contract* contract;
  Numbers numbers;
  attest_tensor q, k, v, bias, keep, kv_lengths;
  attest_tensor q_radius, k_radius, v_radius;              // absent: 0
  Index batch, heads, kv_heads, group, rows, keys, d, dv;  // group: heads that share a key/value head
  bool has_bias, has_keep, has_radii;
  CallOptions options;

  [[nodiscard]] Index kv_head(Index h) const noexcept { return h / group; }
  // The number of a key/value head among those of all samples.
  [[nodiscard]] Index head_number(Index b, Index h) const noexcept { return b * kv_heads + kv_head(h); }
  // The number of a row among those of all samples and heads.
  [[nodiscard]] Index row_number(const RowIndex& r) const noexcept { return (r.b * heads + r.h) * rows + r.i; }
  // Lb: the keys of sample b.
  [[nodiscard]] Index length(Index b) const noexcept;
  // Keys outside [first, last) are masked by length, causality or window.
  [[nodiscard]] KeyRange range(Index b, Index i) const noexcept { return key_range(options, i, rows, length(b)); }
  [[nodiscard]] bool kept(Index b, Index h, Index i, Index j) const noexcept;
  // Tells whether the contract promises that key j, if masked, is never read.
  [[nodiscard]] bool unread(Index b, Index j) const noexcept;
};

// attest_at() of a tensor of four axes.
inline const std::byte* element_at(const attest_tensor& t, Index b, Index h, Index i, Index column) {
  const std::int64_t* by = t.strides;
  return static_cast<const std::byte*>(t.data) + t.byte_offset +
         (b * by[0] + h * by[1] + i * by[2] + column * by[3]) * (t.dtype.bits / 8);
}
// Reads `count` elements along an axis: those at (char*)first + n * stride elements. Exact.
void read_strided(const attest_tensor& tensor, const void* first, Index stride, Index count, double* to);
// Elements (b, h, i, 0..count) of a tensor of four axes.
inline void read_row(const attest_tensor& t, Index b, Index h, Index i, Index count, double* to) {
  read_strided(t, element_at(t, b, h, i, 0), t.strides[3], count, to);
}
// Elements (b, h, first..first+count, column).
inline void read_column(const attest_tensor& t, Index b, Index h, Index first, Index count, Index column, double* to) {
  read_strided(t, element_at(t, b, h, first, column), t.strides[2], count, to);
}

}  // namespace attest::oracle
