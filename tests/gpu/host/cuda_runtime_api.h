// The part of the CUDA runtime that attest/cuda.hpp and the example use, on the host: streams are queues that nothing
// empties but a synchronisation, so that what is not ordered comes late here as it may on a device.
#pragma once
#include <sys/mman.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <set>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorIllegalAddress = 700
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
constexpr unsigned cudaStreamNonBlocking = 1, cudaHostAllocDefault = 0;

namespace host_cuda {

constexpr std::size_t huge = std::size_t{1} << 30;

struct Queue {
  std::deque<std::function<void()>> work;
};
struct Moment {
  std::chrono::steady_clock::time_point at{};
};

// The one device. Tests look into it, and break it.
struct Device {
  int count = 1;
  std::size_t room = std::size_t{1} << 40;  // bytes that it has
  std::size_t held = 0, most_held = 0, allocations = 0, host_allocations = 0, copies = 0;
  cudaError_t last = cudaSuccess, sticky = cudaSuccess;
  std::map<void*, std::size_t> blocks;
  std::set<void*> host_blocks;
  std::list<Queue> streams{1};  // the first is the default one
  std::list<Moment> events;

  void reset() {
    count = 1;
    room = std::size_t{1} << 40;
    most_held = held;
    allocations = host_allocations = copies = 0;
    last = sticky = cudaSuccess;
  }
  cudaError_t tell(cudaError_t error) { return error == cudaSuccess ? sticky : last = error; }
  Queue& of(Queue* stream) { return stream == nullptr ? streams.front() : *stream; }
  // Acts as a kernel whose error the device does not survive.
  void lose(cudaError_t error) { sticky = last = error; }
  void finish(Queue& queue) {
    while (!queue.work.empty()) {
      const std::function<void()> step = std::move(queue.work.front());
      queue.work.pop_front();
      if (sticky == cudaSuccess) step();
    }
  }
};
inline Device& device() {
  static Device one;
  return one;
}
inline cudaError_t enqueue(Queue* stream, std::function<void()> step) {
  if (device().sticky != cudaSuccess) return device().sticky;
  device().of(stream).work.push_back(std::move(step));
  return cudaSuccess;
}

}  // namespace host_cuda

using cudaStream_t = host_cuda::Queue*;
using cudaEvent_t = host_cuda::Moment*;

inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    default:
      return "another error";
  }
}
inline const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
inline cudaError_t cudaGetLastError() {
  const cudaError_t last = host_cuda::device().last;
  host_cuda::device().last = host_cuda::device().sticky;
  return last;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = host_cuda::device().count;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
inline cudaError_t cudaSetDevice(int ordinal) {
  return host_cuda::device().tell(ordinal < host_cuda::device().count ? cudaSuccess : cudaErrorInvalidDevice);
}
inline cudaError_t cudaMalloc(void** memory, std::size_t size) {
  host_cuda::Device& device = host_cuda::device();
  if (device.sticky != cudaSuccess) return device.sticky;
  if (device.held + size > device.room) return device.tell(cudaErrorMemoryAllocation);
  // Pages of a block larger than any test uses become real as they are touched.
  *memory = size < host_cuda::huge
                ? std::aligned_alloc(256, (size + 255) / 256 * 256)
                : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (size < host_cuda::huge) std::memset(*memory, 0xA5, size);
  device.blocks[*memory] = size;
  ++device.allocations;
  device.held += size;
  device.most_held = device.held > device.most_held ? device.held : device.most_held;
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  host_cuda::Device& device = host_cuda::device();
  if (memory == nullptr) return device.sticky;
  const auto block = device.blocks.find(memory);
  if (block == device.blocks.end()) return device.tell(cudaErrorInvalidValue);
  block->second < host_cuda::huge ? std::free(memory) : static_cast<void>(::munmap(memory, block->second));
  device.held -= block->second;
  device.blocks.erase(block);
  return device.sticky;
}
inline cudaError_t cudaHostAlloc(void** memory, std::size_t size, unsigned) {
  *memory = std::aligned_alloc(256, (size + 255) / 256 * 256);
  host_cuda::device().host_blocks.insert(*memory);
  ++host_cuda::device().host_allocations;
  return host_cuda::device().sticky;
}
inline cudaError_t cudaFreeHost(void* memory) {
  host_cuda::device().host_blocks.erase(memory);
  std::free(memory);
  return host_cuda::device().sticky;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind, cudaStream_t stream) {
  ++host_cuda::device().copies;
  return host_cuda::enqueue(stream, [=] { std::memcpy(to, from, size); });
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t size, cudaStream_t stream) {
  if (size >= host_cuda::huge)
    return host_cuda::device().sticky;  // a device has that memory; here it would become real
  return host_cuda::enqueue(stream, [=] { std::memset(to, value, size); });
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  host_cuda::device().streams.emplace_back();
  *stream = &host_cuda::device().streams.back();
  return host_cuda::device().sticky;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  host_cuda::device().finish(*stream);
  host_cuda::device().streams.remove_if([=](const host_cuda::Queue& queue) { return &queue == stream; });
  return host_cuda::device().sticky;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  host_cuda::device().finish(host_cuda::device().of(stream));
  return host_cuda::device().sticky;
}
inline cudaError_t cudaDeviceSynchronize() {
  for (host_cuda::Queue& queue : host_cuda::device().streams) host_cuda::device().finish(queue);
  return host_cuda::device().sticky;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  host_cuda::device().events.emplace_back();
  *event = &host_cuda::device().events.back();
  return host_cuda::device().sticky;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  host_cuda::device().events.remove_if([=](const host_cuda::Moment& moment) { return &moment == event; });
  return host_cuda::device().sticky;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return host_cuda::enqueue(stream, [=] { event->at = std::chrono::steady_clock::now(); });
}
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return host_cuda::device().sticky;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = host_cuda::device().room;
  *free = *total - host_cuda::device().held;
  return host_cuda::device().sticky;
}
