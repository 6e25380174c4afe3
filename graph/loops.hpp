#pragma once
#include <span>
#include <vector>

#include "core/index.hpp"

// A function for each width of vectors: no product is fused with its sum (-ffp-contract=off), so that all of them give the same bits. Where sanitizers run, one.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ATTEST_GRAPH_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define ATTEST_GRAPH_CLONES
#endif

namespace attest::graph {

// Computes out [m, n] = a [m, k] times b [k, n], row-major, of all numbers or of their squares; each element is added up in the order of k.
void multiply_matrices(const double* a, const double* b, double* out, Index m, Index k, Index n, bool squares = false);

// The sum of `count` numbers in their order, and of their squares.
double sum_of(const double* x, Index count) noexcept;
double sum_of_squares(const double* x, Index count) noexcept;

std::vector<double> squared(std::span<const double> x);

}  // namespace attest::graph
