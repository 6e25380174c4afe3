#pragma once
#include <span>
#include <vector>

#include "core/index.hpp"

namespace attest::graph {

// out [m, n] = a [m, k] times b [k, n], row-major; each element is added up in the order of k.
void multiply_matrices(const double* a, const double* b, double* out, Index m, Index k, Index n) noexcept;

// The sum of `count` numbers in their order, and of their squares.
double sum_of(const double* x, Index count) noexcept;
double sum_of_squares(const double* x, Index count) noexcept;

std::vector<double> squared(std::span<const double> x);

}  // namespace attest::graph
