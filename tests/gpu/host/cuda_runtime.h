// Kernels on the host: the threads of a block are fibres, which give way at each barrier and each exchange within a
// warp. on_host.py turns launches and shared memory into calls of this.
#pragma once
#include <cmath>
#include <tuple>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __CUDA_ARCH__ 900

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace host_cuda {

constexpr unsigned warp_size = 32;

struct Where {
  dim3 thread, block, block_size, grid_size;
};
const Where& where();
void* shared_memory();
void block_barrier();
void warp_barrier();
// Returns the number of lane `from` of this thread's warp; all of its lanes take part.
std::uint64_t exchange(std::uint64_t mine, unsigned from);
std::uint64_t ballot(bool mine);

// Runs `thread` once for each thread of the grid, block after block.
void run(dim3 grid, dim3 block, std::size_t shared, const std::function<void()>& thread);

inline std::map<const void*, int>& shared_limits() {
  static std::map<const void*, int> limits;
  return limits;
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
            const Arguments&... arguments) {
  const auto limit = shared_limits().find(reinterpret_cast<const void*>(kernel));
  const std::size_t most_shared = limit == shared_limits().end() ? 48 << 10 : static_cast<std::size_t>(limit->second);
  if (grid.x == 0 || grid.x > 0x7FFFFFFF || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535 ||
      block.x * block.y * block.z > 1024 || shared > most_shared) {
    device().last = cudaErrorInvalidConfiguration;
    return;
  }
  const std::tuple<Parameters...> copies(arguments...);
  enqueue(stream, [=] { run(grid, block, shared, [&] { std::apply(kernel, copies); }); });
}

}  // namespace host_cuda

#define threadIdx (host_cuda::where().thread)
#define blockIdx (host_cuda::where().block)
#define blockDim (host_cuda::where().block_size)
#define gridDim (host_cuda::where().grid_size)

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value > 227 << 10) return host_cuda::device().tell(cudaErrorInvalidValue);
  host_cuda::shared_limits()[kernel] = value;
  return host_cuda::device().sticky;
}

inline void __syncthreads() { host_cuda::block_barrier(); }
inline void __syncwarp() { host_cuda::warp_barrier(); }
inline float __shfl_sync(unsigned, float value, int lane) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = static_cast<std::uint32_t>(host_cuda::exchange(bits, static_cast<unsigned>(lane)));
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}
inline float __shfl_xor_sync(unsigned mask, float value, int step) {
  return __shfl_sync(mask, value, static_cast<int>(threadIdx.x % host_cuda::warp_size) ^ step);
}
inline unsigned __ballot_sync(unsigned, bool value) { return static_cast<unsigned>(host_cuda::ballot(value)); }
inline int __ffs(unsigned bits) { return bits == 0 ? 0 : __builtin_ctz(bits) + 1; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
