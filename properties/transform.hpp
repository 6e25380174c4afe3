#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/inputs.hpp"
#include "core/rng.hpp"

namespace attest::properties {

// A random choice of a law: a function of the problem's seed and of the law's own `salt`, so that it survives
// shrinking.
inline std::uint64_t draw(const Problem& problem, std::uint64_t salt) noexcept {
  return extend(mix(problem.seed ^ 0x6C61775F64726177u), salt);
}

// Extents of a tensor of up to four axes: 1 along those that it lacks.
std::array<Index, 4> extents(const Tensor& tensor) noexcept;
// Extents of the tensor's storage: those of its shape, 1 along axes of stride 0.
std::array<Index, 4> stored_extents(const Tensor& tensor) noexcept;

// Calls visit(i0, i1, i2, i3) once for each stored element: the first index along axes of stride 0.
template <class Visit>
void for_each_stored(const Tensor& tensor, Visit&& visit) {
  if (!tensor.present()) return;
  const std::array<Index, 4> n = stored_extents(tensor);
  for (Index i0 = 0; i0 < n[0]; ++i0)
    for (Index i1 = 0; i1 < n[1]; ++i1)
      for (Index i2 = 0; i2 < n[2]; ++i2)
        for (Index i3 = 0; i3 < n[3]; ++i3) visit(i0, i1, i2, i3);
}

// The address of an element of a tensor: attest_at() without a loop over axes.
inline std::byte* address_of(const attest_tensor& t, const std::array<Index, 4>& i) noexcept {
  Index element = 0;
  switch (t.ndim) {
    case 4:
      element += i[3] * t.strides[3];
      [[fallthrough]];
    case 3:
      element += i[2] * t.strides[2];
      [[fallthrough]];
    case 2:
      element += i[1] * t.strides[1];
      [[fallthrough]];
    case 1:
      element += i[0] * t.strides[0];
      break;
    default:
      break;
  }
  return static_cast<std::byte*>(t.data) + t.byte_offset + element * (t.dtype.bits / 8);
}

// Calls visit(i0, i1, i2) once for each stored row, the elements along the last of four axes.
template <class Visit>
void for_each_row(const Tensor& tensor, Visit&& visit) {
  if (!tensor.present()) return;
  const std::array<Index, 4> n = stored_extents(tensor);
  for (Index i0 = 0; i0 < n[0]; ++i0)
    for (Index i1 = 0; i1 < n[1]; ++i1)
      for (Index i2 = 0; i2 < n[2]; ++i2) visit(i0, i1, i2);
}

// Copies `count` elements along the last of four axes, from element i of one tensor to element j of another of its
// type, bit by bit: a NaN keeps its payload.
void copy_row(const attest_tensor& from, const std::array<Index, 4>& i, const attest_tensor& to,
              const std::array<Index, 4>& j, Index count) noexcept;

// Inputs whose sample t is sample `samples[t]` of the given ones; axes, strides and base addresses modulo 64 stay as
// they are, and so does sharing along stride 0.
Inputs gather_samples(const Inputs& inputs, std::span<const Index> samples);

// The same logical tensor in another layout; sharing along stride 0 is given up.
Tensor relaid(const Tensor& tensor, Layout layout);

// A finite value that differs from x: `other` if that does, else one near at hand.
double changed(double x, double other) noexcept;

// The problem with another seed: other values of the same distribution, and other masks.
Problem reseeded(const Problem& problem, std::uint64_t salt);

}  // namespace attest::properties
