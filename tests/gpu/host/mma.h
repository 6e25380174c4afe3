// Fragments of which every lane has the whole: slow, and the same numbers but for the order of a sum.
#pragma once
#include "cuda_runtime.h"

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major };
namespace precision {
struct tf32 {};
}  // namespace precision

template <class Use, int m, int n, int k, class T, class Layout = row_major>
struct fragment {
  static constexpr int rows = std::is_same_v<Use, matrix_b> ? k : m;
  static constexpr int columns = std::is_same_v<Use, matrix_a> ? k : n;
  static constexpr bool by_columns = std::is_same_v<Layout, col_major>;
  float element[rows][columns];
};

// Rounds to nearest, ties away from zero, to ten bits.
inline float __float_to_tf32(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7F800000) != 0x7F800000) bits = (bits + 0x1000) & ~std::uint32_t{0x1FFF};
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}

template <class Fragment>
void fill_fragment(Fragment& to, float value) {
  for (auto& row : to.element)
    for (float& each : row) each = value;
}
template <class Fragment>
void load_matrix_sync(Fragment& to, const float* from, int pitch) {
  host_cuda::warp_barrier();
  if (reinterpret_cast<std::uintptr_t>(from) % 32 != 0 || pitch % 4 != 0) std::abort();
  for (int i = 0; i < Fragment::rows; ++i)
    for (int j = 0; j < Fragment::columns; ++j)
      to.element[i][j] = Fragment::by_columns ? from[j * pitch + i] : from[i * pitch + j];
}
template <class Fragment>
void load_matrix_sync(Fragment& to, const float* from, int pitch, layout_t) {
  load_matrix_sync(to, from, pitch);
}
template <class Fragment>
void store_matrix_sync(float* to, const Fragment& from, int pitch, layout_t) {
  host_cuda::warp_barrier();
  const int lane = static_cast<int>(threadIdx.x % host_cuda::warp_size);
  for (int n = lane; n < Fragment::rows * Fragment::columns; n += static_cast<int>(host_cuda::warp_size))
    to[n / Fragment::columns * pitch + n % Fragment::columns] =
        from.element[n / Fragment::columns][n % Fragment::columns];
}
template <class A, class B, class Sum>
void mma_sync(Sum& to, const A& a, const B& b, const Sum& c) {
  for (int i = 0; i < A::rows; ++i)
    for (int j = 0; j < B::columns; ++j) {
      float sum = c.element[i][j];
      for (int x = 0; x < A::columns; ++x) sum = std::fma(a.element[i][x], b.element[x][j], sum);
      to.element[i][j] = sum;
    }
}

}  // namespace nvcuda::wmma
