#pragma once
#include <functional>

#include "core/index.hpp"
#include "graph/tiles.hpp"

// A function for each width of vectors: no product is fused with its sum (-ffp-contract=off), so that all of them give
// the same bits. Where sanitizers run, one.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ATTEST_GRAPH_X86
#define ATTEST_GRAPH_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define ATTEST_GRAPH_CLONES
#endif

namespace attest::graph {

// Columns [column, column + columns) of a matrix in rows [row, row + rows), as [rows, strip_columns]; columns past the
// last may hold anything.
using Strip = std::function<void(Index row, Index rows, Index column, Index columns, double* to)>;

// Computes out [m, n] = a [m, k] times b [k, n], row-major, and, where there are any, squares [square_rows, n] of the
// squares of the first rows of a and of b, each cut to 24 bits. Each element is added up in the order of k.
void multiply_matrices(const double* a, const Strip& b, double* out, Index m, Index k, Index n,
                       double* squares = nullptr, Index square_rows = 0);

// The sum of `count` numbers in their order, and of their squares.
double sum_of(const double* x, Index count) noexcept;
double sum_of_squares(const double* x, Index count) noexcept;

}  // namespace attest::graph
