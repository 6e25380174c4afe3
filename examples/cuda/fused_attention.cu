#include "fused_attention.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <algorithm>
#include <cmath>

namespace fused {
namespace {

constexpr int lanes = 32, warps = 4;
constexpr int tile = 32;                           // keys, one for each lane
constexpr int rows_per_warp = 4, block_rows = 16;  // rows of attend()
constexpr int wmma_rows = 16;                      // rows of a warp of attend_tf32()
constexpr int64_t longest_grid_y = 65535;
constexpr int64_t most_splits = 16, shortest_split = 64, most_split_queries = 64;
constexpr unsigned all_lanes = 0xFFFFFFFF;

// The host's decisions for a problem.
struct Plan {
  int64_t row_tiles, splits, per_split;  // per_split: keys, a multiple of `tile`
  bool q_vectors, k_vectors, v_vectors;  // rows may be loaded 16 bytes at a time
  float* partial;                        // with several splits: maximum, sum and unnormalised values of each
};

__device__ float widened(float x) { return x; }
__device__ float widened(__half x) { return __half2float(x); }
__device__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void narrow(float x, float* to) { *to = x; }
__device__ void narrow(float x, __half* to) { *to = __float2half_rn(x); }
__device__ void narrow(float x, __nv_bfloat16* to) { *to = __float2bfloat16_rn(x); }

template <class T>
__device__ T* at(const Tensor& t, int64_t i0, int64_t i1 = 0, int64_t i2 = 0, int64_t i3 = 0) {
  const int64_t offset = i0 * t.strides[0] + i1 * t.strides[1] + i2 * t.strides[2] + i3 * t.strides[3];
  return static_cast<T*>(t.data) + offset;
}

__device__ float warp_max(float x) {
  for (int step = lanes / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(all_lanes, x, step));
  return x;
}
__device__ float warp_sum(float x) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(all_lanes, x, step);
  return x;
}

// Rows of a matrix as float, into shared memory; zeros from row `valid` on.
template <class T, class Convert>
__device__ void load_rows(const T* from, int64_t row_stride, int64_t column_stride, int rows, int valid, int columns,
                          bool vectors, float* to, int pitch, Convert convert) {
  constexpr int wide = 16 / sizeof(T);
  if (vectors) {
    const int row_vectors = columns / wide;
    for (int n = threadIdx.x; n < rows * row_vectors; n += blockDim.x) {
      const int row = n / row_vectors, column = n % row_vectors * wide;
      uint4 packed = {0, 0, 0, 0};
      if (row < valid) packed = *reinterpret_cast<const uint4*>(from + row * row_stride + column);
      T values[wide];
      memcpy(values, &packed, sizeof values);
#pragma unroll
      for (int x = 0; x < wide; ++x) to[row * pitch + column + x] = convert(widened(values[x]));
    }
  } else {
    for (int n = threadIdx.x; n < rows * columns; n += blockDim.x) {
      const int row = n / columns, column = n % columns;
      to[row * pitch + column] = row < valid ? convert(widened(from[row * row_stride + column * column_stride])) : 0.0f;
    }
  }
}

__device__ int64_t keys_of(const Problem& p, int64_t b) { return p.lengths.data ? *at<int32_t>(p.lengths, b) : p.keys; }

__device__ int64_t diagonal(const Problem& p, int64_t i, int64_t length) {
  return p.bottom_right ? i + length - p.queries : i;
}

__device__ bool takes_part(const Problem& p, int64_t b, int64_t h, int64_t i, int64_t j, int64_t length) {
  if (i >= p.queries || j >= length) return false;
  const int64_t ahead = j - diagonal(p, i, length);
  return !(p.causal && ahead > 0) && !(p.left >= 0 && -ahead > p.left) && !(p.right >= 0 && ahead > p.right) &&
         !(p.keep.data && *at<uint8_t>(p.keep, b, h, i, j) == 0);
}

// The intrinsics are not merged into multiply-adds: what is compared with the maximum is what exp sees.
template <class T>
__device__ float score(const Problem& p, float dot, int64_t b, int64_t h, int64_t i, int64_t j) {
  float s = __fmul_rn(dot, p.scale);
  if (p.softcap > 0) s = __fmul_rn(p.softcap, tanhf(s / p.softcap));
  if (p.bias.data)
    s = __fadd_rn(s, p.bias_is_f32 ? *at<float>(p.bias, b, h, i, j) : widened(*at<T>(p.bias, b, h, i, j)));
  return s;
}

// The keys that some row of [first_row, first_row + rows) may see, of those in a split; `first` in steps of a tile.
struct Range {
  int64_t first, last;
};
__device__ Range keys_in_sight(const Problem& p, int64_t first_row, int64_t rows, int64_t length, int64_t first,
                               int64_t last) {
  const int64_t lowest = diagonal(p, first_row, length), highest = diagonal(p, first_row + rows - 1, length);
  last = min(last, length);
  if (p.causal) last = min(last, highest + 1);
  if (p.right >= 0) last = min(last, highest + p.right + 1);
  if (p.left >= 0 && lowest - p.left > first) first += (lowest - p.left - first) / tile * tile;
  return {first, last};
}

// The online softmax of one row, held by a warp: each lane has one key of a tile.
struct Row {
  float top = -INFINITY, sum = 0;

  // Takes in a tile; returns this lane's weight, and in `kept` what the values so far are to be multiplied by.
  __device__ float take(float s, bool open, float& kept) {
    const float now = fmaxf(top, warp_max(open ? s : -INFINITY));
    const float shift = now == -INFINITY ? 0.0f : now;
    kept = expf(__fsub_rn(top, shift));
    const float weight = open ? expf(__fsub_rn(s, shift)) : 0.0f;
    sum = fmaf(sum, kept, warp_sum(weight));
    top = now;
    return weight;
  }
};

template <class T>
__device__ void store(const Problem& p, int64_t b, int64_t h, int64_t i, int64_t column, float value, float sum) {
  narrow(sum == 0 ? 0.0f : value / sum, at<T>(p.out, b, h, i, column));  // a row without keys is 0
}
__device__ void store_lse(const Problem& p, int64_t b, int64_t h, int64_t i, float top, float sum) {
  if (p.lse.data == nullptr) return;
  const float lse = sum == 0 ? -INFINITY : top + logf(sum);
  if (p.lse_is_f64)
    *at<double>(p.lse, b, h, i) = lse;
  else
    *at<float>(p.lse, b, h, i) = lse;
}

__host__ __device__ int64_t partial_floats(const Problem& p) { return p.value_width + 2; }

// Attends with blocks of 16 rows of one head, each warp four of them; one batch index after the other. `columns`:
// columns of v for each lane.
template <class T, int columns>
__global__ void __launch_bounds__(warps* lanes) attend(const Problem p, const Plan plan) {
  extern __shared__ float shared[];
  const int width = static_cast<int>(p.width), value_width = static_cast<int>(p.value_width);
  const int k_pitch = width | 1, v_pitch = columns * lanes;  // odd: each lane reads another bank
  float* const q_tile = shared;
  float* const k_tile = q_tile + block_rows * width;
  float* const v_tile = k_tile + tile * k_pitch;
  const int warp = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  const int64_t row_tile = blockIdx.x % plan.row_tiles, h = blockIdx.x / plan.row_tiles % p.heads;
  const int64_t split = blockIdx.x / plan.row_tiles / p.heads, kv_head = h / (p.heads / p.kv_heads);
  const int64_t first_row = row_tile * block_rows;
  const int rows = static_cast<int>(min(static_cast<int64_t>(block_rows), p.queries - first_row));
  const auto as_it_is = [](float x) { return x; };

  for (int64_t b = blockIdx.y; b < p.batch; b += gridDim.y) {
    __syncthreads();  // all have left the last sample
    load_rows(at<T>(p.q, b, h, first_row), p.q.strides[2], p.q.strides[3], block_rows, rows, width, plan.q_vectors,
              q_tile, width, as_it_is);
    const int64_t length = keys_of(p, b);
    const Range range = keys_in_sight(p, first_row, rows, length, split * plan.per_split, (split + 1) * plan.per_split);
    const int64_t tiles = range.last > range.first ? (range.last - range.first + tile - 1) / tile : 0;
    Row row[rows_per_warp];
    float value[rows_per_warp][columns] = {};

    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t first = range.first + t * tile;
      const int valid = static_cast<int>(min(static_cast<int64_t>(tile), length - first));
      __syncthreads();  // all have left the last tile
      load_rows(at<T>(p.k, b, kv_head, first), p.k.strides[2], p.k.strides[3], tile, valid, width, plan.k_vectors,
                k_tile, k_pitch, as_it_is);
      load_rows(at<T>(p.v, b, kv_head, first), p.v.strides[2], p.v.strides[3], tile, valid, value_width, plan.v_vectors,
                v_tile, v_pitch, as_it_is);
      __syncthreads();  // the tile is there

      float dot[rows_per_warp] = {};
      for (int x = 0; x < width; ++x) {
        const float k = k_tile[lane * k_pitch + x];
#pragma unroll
        for (int r = 0; r < rows_per_warp; ++r)
          dot[r] = fmaf(q_tile[(warp * rows_per_warp + r) * width + x], k, dot[r]);
      }
#pragma unroll
      for (int r = 0; r < rows_per_warp; ++r) {
        const int64_t i = first_row + warp * rows_per_warp + r, j = first + lane;
        const bool open = takes_part(p, b, h, i, j, length);
        unsigned opened = __ballot_sync(all_lanes, open);
        if (opened == 0) continue;
        float kept;
        const float weight = row[r].take(open ? score<T>(p, dot[r], b, h, i, j) : 0.0f, open, kept);
#pragma unroll
        for (int c = 0; c < columns; ++c) value[r][c] *= kept;
        for (; opened != 0; opened &= opened - 1) {  // a closed key is not even multiplied by 0: it may be NaN
          const int key = __ffs(opened) - 1;
          const float w = __shfl_sync(all_lanes, weight, key);
#pragma unroll
          for (int c = 0; c < columns; ++c)
            value[r][c] = fmaf(w, v_tile[key * v_pitch + c * lanes + lane], value[r][c]);
        }
      }
    }

#pragma unroll
    for (int r = 0; r < rows_per_warp; ++r) {
      const int64_t i = first_row + warp * rows_per_warp + r;
      if (i >= p.queries) continue;
      if (plan.splits == 1) {
#pragma unroll
        for (int c = 0; c < columns; ++c)
          if (c * lanes + lane < value_width) store<T>(p, b, h, i, c * lanes + lane, value[r][c], row[r].sum);
        if (lane == 0) store_lse(p, b, h, i, row[r].top, row[r].sum);
      } else {  // also for a split that has no key
        float* const mine =
            plan.partial + (((b * p.heads + h) * p.queries + i) * plan.splits + split) * partial_floats(p);
        if (lane == 0) {
          mine[0] = row[r].top;
          mine[1] = row[r].sum;
        }
#pragma unroll
        for (int c = 0; c < columns; ++c)
          if (c * lanes + lane < value_width) mine[2 + c * lanes + lane] = value[r][c];
      }
    }
  }
}

// Puts the splits of each row together, one thread for each element.
template <class T>
__global__ void merge(const Problem p, const Plan plan) {
  const int64_t elements = p.batch * p.heads * p.queries * p.value_width;
  for (int64_t n = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; n < elements;
       n += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t column = n % p.value_width, row = n / p.value_width;
    const int64_t i = row % p.queries, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
    const float* const parts = plan.partial + row * plan.splits * partial_floats(p);
    float top = -INFINITY, sum = 0, value = 0;
    for (int64_t s = 0; s < plan.splits; ++s) top = fmaxf(top, parts[s * partial_floats(p)]);
    const float shift = top == -INFINITY ? 0.0f : top;
    for (int64_t s = 0; s < plan.splits; ++s) {
      const float* const part = parts + s * partial_floats(p);
      const float weight = expf(__fsub_rn(part[0], shift));
      sum = fmaf(part[1], weight, sum);
      value = fmaf(part[2 + column], weight, value);
    }
    store<T>(p, b, h, i, column, value, sum);
    if (column == 0) store_lse(p, b, h, i, top, sum);
  }
}

// Shared memory of attend_tf32(): rows of q, k and v, weights, and the values so far, which fragments cannot rescale by
// row.
struct Tf32Layout {
  int width, value_width, qk_pitch, v_pitch;  // padded to the size of a fragment
  __host__ __device__ explicit Tf32Layout(const Problem& p)
      : width(static_cast<int>((p.width + 7) / 8 * 8)),
        value_width(static_cast<int>((p.value_width + 15) / 16 * 16)),
        qk_pitch(width + 8),
        v_pitch(value_width + 8) {}
  __host__ __device__ int k() const { return warps * wmma_rows * qk_pitch; }
  __host__ __device__ int v() const { return k() + tile * qk_pitch; }
  __host__ __device__ int weights() const { return v() + tile * v_pitch; }
  __host__ __device__ int values() const { return weights() + warps * wmma_rows * (tile + 8); }
  __host__ __device__ int end() const { return values() + warps * wmma_rows * v_pitch; }
};

// Both products by tensor cores: operands rounded to TF32, sums in f32. A block has 64 rows of one head, each warp 16.
__global__ void __launch_bounds__(warps* lanes) attend_tf32(const Problem p, const Plan plan) {
#if __CUDA_ARCH__ >= 800
  namespace wmma = nvcuda::wmma;
  using A = wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
  using Transposed = wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major>;
  using B = wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
  using Sum = wmma::fragment<wmma::accumulator, 16, 16, 8, float>;
  extern __shared__ __align__(128) float shared[];
  const Tf32Layout layout(p);
  constexpr int s_pitch = tile + 8;
  const int warp = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  float* const q_tile = shared;
  float* const k_tile = shared + layout.k();
  float* const v_tile = shared + layout.v();
  float* const my_scores = shared + layout.weights() + warp * wmma_rows * s_pitch;
  float* const my_values = shared + layout.values() + warp * wmma_rows * layout.v_pitch;
  const int64_t row_tile = blockIdx.x % plan.row_tiles, h = blockIdx.x / plan.row_tiles;
  const int64_t kv_head = h / (p.heads / p.kv_heads), first_row = row_tile * warps * wmma_rows;
  const int rows = static_cast<int>(min(static_cast<int64_t>(warps * wmma_rows), p.queries - first_row));
  const int width = static_cast<int>(p.width), value_width = static_cast<int>(p.value_width);
  const auto to_tf32 = [](float x) { return wmma::__float_to_tf32(x); };

  for (int n = threadIdx.x; n < layout.weights(); n += blockDim.x) shared[n] = 0;  // the padding of a row stays 0
  for (int64_t b = blockIdx.y; b < p.batch; b += gridDim.y) {
    __syncthreads();
    load_rows(at<float>(p.q, b, h, first_row), p.q.strides[2], p.q.strides[3], warps * wmma_rows, rows, width,
              plan.q_vectors, q_tile, layout.qk_pitch, to_tf32);
    for (int n = lane; n < wmma_rows * layout.v_pitch; n += lanes) my_values[n] = 0;
    __syncwarp();
    const int64_t length = keys_of(p, b);
    const Range range = keys_in_sight(p, first_row, rows, length, 0, p.keys);
    Row row[wmma_rows];

    for (int64_t first = range.first; first < range.last; first += tile) {
      const int valid = static_cast<int>(min(static_cast<int64_t>(tile), length - first));
      __syncthreads();
      load_rows(at<float>(p.k, b, kv_head, first), p.k.strides[2], p.k.strides[3], tile, valid, width, plan.k_vectors,
                k_tile, layout.qk_pitch, to_tf32);
      load_rows(at<float>(p.v, b, kv_head, first), p.v.strides[2], p.v.strides[3], tile, valid, value_width,
                plan.v_vectors, v_tile, layout.v_pitch, to_tf32);
      __syncthreads();

      for (int keys = 0; keys < tile; keys += 16) {
        Sum sum;
        wmma::fill_fragment(sum, 0.0f);
        for (int x = 0; x < layout.width; x += 8) {
          A q;
          Transposed k;
          wmma::load_matrix_sync(q, q_tile + warp * wmma_rows * layout.qk_pitch + x, layout.qk_pitch);
          wmma::load_matrix_sync(k, k_tile + keys * layout.qk_pitch + x, layout.qk_pitch);
          wmma::mma_sync(sum, q, k, sum);
        }
        wmma::store_matrix_sync(my_scores + keys, sum, s_pitch, wmma::mem_row_major);
      }
      __syncwarp();

      unsigned any = 0;
#pragma unroll
      for (int r = 0; r < wmma_rows; ++r) {
        const int64_t i = first_row + warp * wmma_rows + r, j = first + lane;
        const bool open = takes_part(p, b, h, i, j, length);
        const unsigned opened = __ballot_sync(all_lanes, open);
        float* const mine = my_scores + r * s_pitch + lane;
        if (opened == 0) {
          *mine = 0;
          continue;
        }
        any = 1;
        float kept;
        const float weight = row[r].take(open ? score<float>(p, *mine, b, h, i, j) : 0.0f, open, kept);
        *mine = to_tf32(weight);
        for (int c = lane; c < layout.value_width; c += lanes) my_values[r * layout.v_pitch + c] *= kept;
      }
      __syncwarp();
      if (any == 0) continue;

      for (int c = 0; c < layout.value_width; c += 16) {
        Sum sum;
        wmma::load_matrix_sync(sum, my_values + c, layout.v_pitch, wmma::mem_row_major);
        for (int keys = 0; keys < tile; keys += 8) {
          A weights;
          B v;
          wmma::load_matrix_sync(weights, my_scores + keys, s_pitch);
          wmma::load_matrix_sync(v, v_tile + keys * layout.v_pitch + c, layout.v_pitch);
          wmma::mma_sync(sum, weights, v, sum);
        }
        wmma::store_matrix_sync(my_values + c, sum, layout.v_pitch, wmma::mem_row_major);
      }
      __syncwarp();
    }

#pragma unroll
    for (int r = 0; r < wmma_rows; ++r) {
      const int64_t i = first_row + warp * wmma_rows + r;
      if (i >= p.queries) continue;
      for (int c = lane; c < value_width; c += lanes)
        store<float>(p, b, h, i, c, my_values[r * layout.v_pitch + c], row[r].sum);
      if (lane == 0) store_lse(p, b, h, i, row[r].top, row[r].sum);
    }
  }
#endif
}

int64_t bytes_of(Type type) { return type == Type::f32 ? 4 : 2; }

bool loads_vectors(const Tensor& t, int64_t columns, Type type) {
  const int64_t wide = 16 / bytes_of(type);
  const bool rows = t.strides[3] == 1 && columns % wide == 0 && t.strides[0] % wide == 0 && t.strides[1] % wide == 0 &&
                    t.strides[2] % wide == 0;
  return rows && reinterpret_cast<uintptr_t>(t.data) % 16 == 0;
}

Plan plan_of(const Problem& p) {
  Plan plan{};
  const int64_t rows = p.tensor_cores ? warps * wmma_rows : block_rows;
  plan.row_tiles = (p.queries + rows - 1) / rows;
  plan.per_split = (p.keys + tile - 1) / tile * tile;
  if (!p.tensor_cores &&
      p.queries <= most_split_queries)  // by the sizes of a sample alone: no row depends on the batch
    plan.per_split = std::max(shortest_split, ((p.keys + most_splits - 1) / most_splits + tile - 1) / tile * tile);
  plan.splits = (p.keys + plan.per_split - 1) / plan.per_split;
  plan.q_vectors = loads_vectors(p.q, p.width, p.type);
  plan.k_vectors = loads_vectors(p.k, p.width, p.type);
  plan.v_vectors = loads_vectors(p.v, p.value_width, p.type);
  return plan;
}

cudaError_t launch(void (*kernel)(Problem, Plan), const Problem& p, const Plan& plan, size_t shared,
                   cudaStream_t stream) {
  const int64_t blocks = plan.row_tiles * p.heads * plan.splits;
  if (blocks > INT32_MAX) return cudaErrorInvalidValue;
  const cudaError_t room = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  if (room != cudaSuccess) return room;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(std::min(p.batch, longest_grid_y)));
  kernel<<<grid, warps * lanes, shared, stream>>>(p, plan);
  return cudaGetLastError();
}

template <class T>
cudaError_t attention_in(const Problem& p, const Plan& plan, cudaStream_t stream) {
  const int columns = p.value_width <= 32 ? 1 : p.value_width <= 64 ? 2 : p.value_width <= 128 ? 4 : 8;
  const auto kernel = columns == 1   ? attend<T, 1>
                      : columns == 2 ? attend<T, 2>
                      : columns == 4 ? attend<T, 4>
                                     : attend<T, 8>;
  const size_t floats = static_cast<size_t>(block_rows * p.width + tile * ((p.width | 1) + columns * lanes));
  const cudaError_t error = launch(kernel, p, plan, floats * sizeof(float), stream);
  if (error != cudaSuccess || plan.splits == 1) return error;
  const int64_t elements = p.batch * p.heads * p.queries * p.value_width;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>((elements + 255) / 256, 1 << 20));
  merge<T><<<blocks, 256, 0, stream>>>(p, plan);
  return cudaGetLastError();
}

}  // namespace

size_t workspace_bytes(const Problem& p) {
  const Plan plan = plan_of(p);
  if (plan.splits == 1) return 0;
  return static_cast<size_t>(p.batch * p.heads * p.queries * plan.splits * partial_floats(p)) * sizeof(float);
}

cudaError_t attention(const Problem& p, void* workspace, cudaStream_t stream) {
  const int64_t most = p.tensor_cores ? widest_tensor_cores : widest;
  if (p.width > most || p.value_width > most || (p.tensor_cores && p.type != Type::f32)) return cudaErrorInvalidValue;
  Plan plan = plan_of(p);
  plan.partial = static_cast<float*>(workspace);
  if (p.tensor_cores) return launch(attend_tf32, p, plan, Tf32Layout(p).end() * sizeof(float), stream);
  if (p.type == Type::f16) return attention_in<__half>(p, plan, stream);
  if (p.type == Type::bf16) return attention_in<__nv_bfloat16>(p, plan, stream);
  return attention_in<float>(p, plan, stream);
}

}  // namespace fused
