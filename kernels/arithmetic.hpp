#pragma once
#include <cstdint>

#include "core/format.hpp"
#include "core/tensor.hpp"

// Rounded arithmetic on arrays: every product, sum, difference and exponential is rounded to the format of its stage,
// once. Real is float or double. Arrays are padded: n means padded(n) elements, all of which the caller has defined.
namespace attest::kernels {

// The unit to which array lengths are rounded up: a multiple of every register width.
inline constexpr Index padding = 8;
constexpr Index padded(Index n) noexcept { return (n + padding - 1) / padding * padding; }

// x[j] = round(x[j]).
void round_all(Format format, float* x, Index n) noexcept;
void round_all(Format format, double* x, Index n) noexcept;

// x[j] = round(x[j] * factor).
template <class Real>
void scale_all(Format format, Real factor, Real* x, Index n) noexcept;

// x[j] = round(x[j] / divisor).
template <class Real>
void divide_all(Format format, Real divisor, Real* x, Index n) noexcept;

// dots[j] = sum over d of q[d] keys[d * stride + j], in ascending d.
template <class Real>
void dot_keys(Format format, const Real* q, const Real* keys, Index stride, Index d, Index n, Real* dots) noexcept;

// sum[c] += weights[j] values[j * stride + c] for the `count` keys j that `keys` lists, in its order.
template <class Real>
void add_weighted(Format format, const Real* weights, const std::int32_t* keys, Index count, const Real* values,
                  Index stride, Index dv, Real* sum) noexcept;

// Largest element, NaN is passed over; and whether none is -inf, of padded(n).
template <class Real>
struct Largest {
  Real value;
  bool above_minus_infinity;
};
template <class Real>
Largest<Real> largest_of(const Real* x, Index n) noexcept;
template <class Real>
Real max_of(const Real* x, Index n) noexcept {
  return largest_of(x, n).value;
}

// Sum in eight interleaved partial sums.
template <class Real>
Real sum_of(Format format, const Real* x, Index n) noexcept;

enum class Base : std::uint8_t { e, two };

// Returns round(base^x): in f32 e^x is at most 0.8 ulp off (exp_lanes.hpp), in narrower formats, and 2^x, 0.51 ulp; in
// f64 1 ulp. Exactly 1 at 0.
template <class Real>
Real power(Format format, Base base, Real x) noexcept;
// powers[j] = round(base^round(x[j] - shift)).
void powers_above(Format format, Base base, const float* x, float shift, Index n, float* powers) noexcept;
void powers_above(Format format, Base base, const double* x, double shift, Index n, double* powers) noexcept;

// The same, and the sum of the powers as sum_of() has it.
template <class Real>
Real powers_and_sum(Format format, const Real* x, Real shift, Index n, Real* powers) noexcept;

// round(ln x): 0.51 ulp off in f32 and narrower formats, 1 ulp in f64.
template <class Real>
Real logarithm(Format format, Real x) noexcept;

}  // namespace attest::kernels
