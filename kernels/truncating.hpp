#pragma once
#include "kernels/arithmetic.hpp"

// Accumulators that truncate: the operations of arithmetic.hpp, but a sum is rounded towards zero and a product is
// exact on its way into it, as in tensor cores. They run in double, which holds the exact products and nearly the exact
// sums of every narrower format; an f64 accumulator has nothing wider to be cut from and rounds to nearest.
namespace attest::kernels {

// Returns x cut to `format`, towards zero. A number that rounds to nearest as an infinity becomes one.
double truncated(Format format, double x) noexcept;

void truncating_dot_keys(Format format, const double* q, const double* keys, Index stride, Index d, Index n,
                         double* dots) noexcept;
void truncating_add_weighted(Format format, const double* weights, const std::int32_t* keys, Index count,
                             const double* values, Index stride, Index dv, double* sum) noexcept;
// x[j] = truncated(x[j] * factor).
void truncating_scale_all(Format format, double factor, double* x, Index n) noexcept;
// Cuts total + x[0] + x[1] + ... after every sum.
double truncating_sum(Format format, double total, const double* x, Index n) noexcept;

}  // namespace attest::kernels
