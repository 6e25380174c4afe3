// A kernel on a GPU as a subject of attest: C++17, the CUDA runtime, nothing else to link. docs/cuda.md walks through
// it.
//
//   #include <attest/cuda.hpp>
//
//   const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
//     static const attest::Plugin plugin{attest::cuda::subject(
//         "mine", describe, [](const attest::Attention& call, cudaStream_t stream) { my_kernel<<<...>>>(...); })};
//     return plugin.table(abi, count);
//   }
//
// The tensors of a call go over in one copy and come back in one, with the memory between and around them: strides,
// addresses modulo 256, poison and guards are those of the call. With ATTEST_HIP defined, the same on HIP's runtime.
#ifndef ATTEST_CUDA_HPP
#define ATTEST_CUDA_HPP

#include <attest/attest.hpp>

#ifdef ATTEST_HIP
#include <hip/hip_runtime_api.h>
#define ATTEST_GPU(name) hip##name
#define ATTEST_GPU_HOST_ALLOC(memory, size) hipHostMalloc(memory, size, hipHostMallocDefault)
#define ATTEST_GPU_HOST_FREE hipHostFree
#else
#include <cuda_runtime_api.h>
#define ATTEST_GPU(name) cuda##name
#define ATTEST_GPU_HOST_ALLOC(memory, size) cudaHostAlloc(memory, size, cudaHostAllocDefault)
#define ATTEST_GPU_HOST_FREE cudaFreeHost
#endif

#include <algorithm>
#include <cstring>

namespace attest {
inline namespace abi1 {
namespace cuda {

using Stream = ATTEST_GPU(Stream_t);
using Event = ATTEST_GPU(Event_t);
using Status = ATTEST_GPU(Error_t);
constexpr Status success = ATTEST_GPU(Success);

#ifdef ATTEST_HIP
constexpr std::int32_t device_type = 10;  // attest_device.type of a tensor on the device, as in DLPack
#else
constexpr std::int32_t device_type = 2;
#endif

// The result was not there when the caller's stream was done.
class OutOfOrder : public std::runtime_error {
 public:
  OutOfOrder()
      : std::runtime_error("the caller's stream does not wait for the result: it changed when that stream was done") {}
};

// Tells whether this process can go on using the device. After an illegal address, a misaligned one, a device assert
// and the like "any further CUDA work will return the same error" (driver_types.h).
inline bool usable() {
  const Status synchronised = ATTEST_GPU(DeviceSynchronize)();
  return synchronised == success && ATTEST_GPU(GetLastError)() == success;
}

// Throws std::runtime_error, or Lost where the device did not survive, unless `status` is success.
inline void check(Status status, const char* when) {
  if (status == success) return;
  const std::string text =
      std::string(when) + ": " + ATTEST_GPU(GetErrorString)(status) + " (" + ATTEST_GPU(GetErrorName)(status) + ")";
  static_cast<void>(ATTEST_GPU(GetLastError)());  // one that the device survives is told once
  if (usable()) throw std::runtime_error(text);
  throw Lost(text + "; the device is lost to this process");
}

// Memory of the device (or page-locked memory of the host) that is kept, and grows by doubling.
template <bool on_host>
class Kept {
 public:
  Kept() = default;
  ~Kept() { release(); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  // Returns at least `size` bytes at a multiple of 256, of no particular contents. Throws Unsupported if there is no
  // room.
  char* reserve(std::size_t size) {
    if (size <= size_) return memory_;
    release();
    std::size_t grown = std::size_t{1} << 20;
    while (grown < size && grown < most_doubled) grown *= 2;
    if (!allocate(std::max(grown, size)))
      throw Unsupported(std::string(on_host ? "the host" : "the device") + " has no room for the " +
                        std::to_string((size >> 20) + 1) + " MiB that the tensors of this call take");
    return memory_;
  }
  void release() {
    if (memory_ != nullptr)
      static_cast<void>(on_host ? ATTEST_GPU_HOST_FREE(memory_) : ATTEST_GPU(Free)(memory_));  // nobody is left to tell
    memory_ = nullptr;
    size_ = 0;
  }
  char* data() const { return memory_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t most_doubled = std::size_t{1} << 30;

  bool allocate(std::size_t size) {
    void* memory = nullptr;
    const Status status = on_host ? ATTEST_GPU_HOST_ALLOC(&memory, size) : ATTEST_GPU(Malloc)(&memory, size);
    if (status == ATTEST_GPU(ErrorMemoryAllocation)) {
      static_cast<void>(ATTEST_GPU(GetLastError)());
      return false;
    }
    check(status, "memory cannot be had");
    memory_ = static_cast<char*>(memory);
    size_ = size;
    return true;
  }

  char* memory_ = nullptr;
  std::size_t size_ = 0;
};
using DeviceMemory = Kept<false>;
using HostMemory = Kept<true>;

// Bytes before and after what the strides of a tensor span that belong to it (docs/plugin.md): 256, and a row of up to
// 65,536 elements, whichever is more.
inline std::size_t guard_bytes(const attest_tensor& tensor) {
  const std::int64_t last = tensor.ndim - 1;
  const std::int64_t row = tensor.shape[last] * std::max<std::int64_t>(tensor.strides[last], 1);
  const auto bytes = static_cast<std::size_t>(std::min<std::int64_t>(row, 65536)) * (tensor.dtype.bits / 8U);
  return (std::max<std::size_t>(256, bytes) + 63) / 64 * 64;
}

// A GPU, and what is kept for its calls. One thread at a time.
class Device {
 public:
  explicit Device(int ordinal = 0) : ordinal_(ordinal) {}  // nothing touches the device before the first call
  ~Device() {
    if (stream_ == nullptr) return;
    static_cast<void>(ATTEST_GPU(EventDestroy)(begin_));
    static_cast<void>(ATTEST_GPU(EventDestroy)(end_));
    static_cast<void>(ATTEST_GPU(StreamDestroy)(stream_));
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Calls `kernel` with the call's tensors on the device, and brings everything back. kernel(call, stream) works on
  // that stream, which waits for no other; kernel(call) on the default stream. Elements of the tensors it gets may be
  // read and written on the device alone; shapes, strides and options may be read here. Throws OutOfOrder;
  // std::runtime_error for an error of the device that belongs to this call, Lost if that ends the device; Unsupported
  // if the device has no room; and the exceptions of `kernel`.
  template <class Kernel>
  void on_device(const Attention& call, Kernel&& kernel) {
    start();
    constexpr bool takes_stream = std::is_invocable_v<Kernel&, const Attention&, Stream>;
    Stream stream = nullptr;
    if constexpr (takes_stream) stream = stream_;
    lay_out(call.raw());
    send(stream);
    check(ATTEST_GPU(EventRecord)(begin_, stream), "an event cannot be recorded");
    try {
      if constexpr (takes_stream)
        kernel(Attention(there_), stream);
      else
        kernel(Attention(there_));
    } catch (const Unsupported&) {
      throw;
    } catch (const std::exception& error) {
      if (usable()) throw;
      throw Lost(std::string(error.what()) + "; the device is lost to this process");
    }
    check(ATTEST_GPU(GetLastError)(), "the kernel was not launched");
    check(ATTEST_GPU(EventRecord)(end_, stream), "an event cannot be recorded");
    bring_back(stream);
  }

  // Returns the time of the last call, from its first work on the stream to its last, by the device's clock.
  std::int64_t elapsed_ns() const { return elapsed_ns_; }
  // Bytes that are kept from call to call.
  std::size_t kept_on_device() const { return device_.size(); }
  std::size_t kept_on_host() const { return host_.size(); }

 private:
  static constexpr std::size_t phase = 256;                       // addresses are kept modulo it
  static constexpr std::size_t far_bytes = std::size_t{1} << 27;  // parts so far apart are moved one by one
  static constexpr std::size_t most_kept = std::size_t{1} << 30;  // nothing is kept of a larger call
  using Field = attest_tensor attest_attention::*;
  static constexpr Field fields[] = {&attest_attention::q,      &attest_attention::k,    &attest_attention::v,
                                     &attest_attention::bias,   &attest_attention::keep, &attest_attention::kv_lengths,
                                     &attest_attention::out,    &attest_attention::lse,  &attest_attention::scores,
                                     &attest_attention::weights};

  // A tensor, or one part of it, with its guards.
  struct Piece {
    char* here;
    std::size_t staged, size;
  };
  // Neighbours in the host's buffer that are neighbours on the device. All tensors are in one, unless parts lie far
  // apart.
  struct Transfer {
    std::size_t staged, there, size;
  };

  // An error that is there before the call belongs to whatever was done before it.
  void start() {
    check(ATTEST_GPU(SetDevice)(ordinal_), "the device cannot be used");
    check(ATTEST_GPU(GetLastError)(), "an error was left before this call");
    check(ATTEST_GPU(DeviceSynchronize)(), "work that was left before this call failed");
    if (stream_ != nullptr) return;
    check(ATTEST_GPU(EventCreate)(&begin_), "an event cannot be had");
    check(ATTEST_GPU(EventCreate)(&end_), "an event cannot be had");
    check(ATTEST_GPU(StreamCreateWithFlags)(&stream_, ATTEST_GPU(StreamNonBlocking)), "a stream cannot be had");
  }

  // Where each tensor goes; there_ becomes the call on the device.
  void lay_out(const attest_attention& call) {
    pieces_.clear();
    transfers_.clear();
    there_ = {};
    std::memcpy(static_cast<void*>(&there_), &call, std::min<std::size_t>(call.struct_size, sizeof there_));
    there_.struct_size = static_cast<std::uint32_t>(std::min<std::size_t>(call.struct_size, sizeof there_));
    std::size_t staged = 0, there = 0;
    for (const auto field : fields)
      if (attest_tensor& tensor = there_.*field; attest_present(&tensor)) place(tensor, staged, there);
    staged_ = staged;
    spanned_ = there;
    char* const base = device_.reserve(there);
    for (const auto field : fields)
      if (attest_tensor& tensor = there_.*field; attest_present(&tensor)) tensor.data = base + tensor.byte_offset;
    for (const auto field : fields) (there_.*field).byte_offset = 0;
    pages_[0] = host_.reserve(2 * staged);
    pages_[1] = pages_[0] + staged;
  }

  // Appends a tensor's pieces; its byte_offset becomes that of its first element on the device.
  void place(attest_tensor& tensor, std::size_t& staged, std::size_t& there) {
    const std::size_t width = tensor.dtype.bits / 8U, guard = guard_bytes(tensor);
    char* const first = static_cast<char*>(tensor.data) + tensor.byte_offset - guard;
    std::size_t size = 2 * guard, step = 0, count = 1;
    int widest = 0;
    std::int64_t last = 0;
    bool empty = false;
    for (int axis = 0; axis < tensor.ndim; ++axis) {
      const std::int64_t extent = tensor.shape[axis];
      empty = empty || extent == 0;
      last += (extent - 1) * tensor.strides[axis];
      if (extent > 1 && (tensor.shape[widest] == 1 || tensor.strides[axis] > tensor.strides[widest])) widest = axis;
    }
    if (!empty) {
      size += (static_cast<std::size_t>(last) + 1) * width;
      const auto parts = static_cast<std::size_t>(tensor.shape[widest]);
      const std::size_t apart = static_cast<std::size_t>(tensor.strides[widest]) * width;
      const std::size_t part = size - (parts - 1) * apart;
      if (parts > 1 && apart >= far_bytes && apart >= part) {
        size = part;
        step = apart;
        count = parts;
      }
    }
    const std::size_t address = reinterpret_cast<std::uintptr_t>(first);
    const std::size_t begin = aligned(there, address);
    for (std::size_t n = 0; n < count; ++n)
      append({first + n * step, aligned(staged, address + n * step), size}, begin + n * step, staged);
    there = begin + (count - 1) * step + size;
    tensor.byte_offset = begin + guard;
    tensor.device = {device_type, ordinal_};
  }

  void append(const Piece& piece, std::size_t there, std::size_t& staged) {
    if (transfers_.empty() || there - transfers_.back().there != piece.staged - transfers_.back().staged)
      transfers_.push_back({piece.staged, there, 0});
    staged = piece.staged + piece.size;
    transfers_.back().size = staged - transfers_.back().staged;
    pieces_.push_back(piece);
  }

  // The first offset from `from` on that is `address` modulo 256.
  static std::size_t aligned(std::size_t from, std::size_t address) {
    return from + (address % phase + phase - from % phase) % phase;
  }

  void send(Stream stream) {
    std::memset(pages_[0], 0xFF, staged_);
    for (const Piece& piece : pieces_) std::memcpy(pages_[0] + piece.staged, piece.here, piece.size);
    if (transfers_.size() > 1) check(ATTEST_GPU(MemsetAsync)(device_.data(), 0xFF, spanned_, stream), cannot_send);
    for (const Transfer& each : transfers_)
      check(ATTEST_GPU(MemcpyAsync)(device_.data() + each.there, pages_[0] + each.staged, each.size,
                                    ATTEST_GPU(MemcpyHostToDevice), stream),
            cannot_send);
  }

  // Brings back the tensors as the caller's stream sees them, and again once all streams are done. Both are the same,
  // if the stream waits for the others.
  void bring_back(Stream stream) {
    for (char* page : pages_) {
      for (const Transfer& each : transfers_)
        check(ATTEST_GPU(MemcpyAsync)(page + each.staged, device_.data() + each.there, each.size,
                                      ATTEST_GPU(MemcpyDeviceToHost), stream),
              failed);
      check(ATTEST_GPU(StreamSynchronize)(stream), failed);
      check(ATTEST_GPU(DeviceSynchronize)(), failed);
    }
    float milliseconds = 0;
    check(ATTEST_GPU(EventElapsedTime)(&milliseconds, begin_, end_), "the time cannot be told");
    elapsed_ns_ = static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
    // Inputs may share memory: which copy was changed is told before any is taken over.
    std::vector<bool> changed;
    for (const Piece& piece : pieces_)
      changed.push_back(std::memcmp(piece.here, pages_[1] + piece.staged, piece.size) != 0);
    for (std::size_t n = 0; n < pieces_.size(); ++n)
      if (changed[n]) std::memcpy(pieces_[n].here, pages_[1] + pieces_[n].staged, pieces_[n].size);
    const bool in_order = std::all_of(transfers_.begin(), transfers_.end(), [this](const Transfer& each) {
      return std::memcmp(pages_[0] + each.staged, pages_[1] + each.staged, each.size) == 0;
    });
    if (device_.size() > most_kept) device_.release();
    if (!in_order) throw OutOfOrder();
  }

  static constexpr const char* cannot_send = "the tensors cannot be sent to the device";
  static constexpr const char* failed = "the device failed in this call";

  int ordinal_;
  DeviceMemory device_;
  HostMemory host_;
  char* pages_[2] = {};  // in host_: the page sent, which takes the stream's view; the page of the final state
  std::size_t staged_ = 0, spanned_ = 0;
  std::vector<Piece> pieces_;
  std::vector<Transfer> transfers_;
  attest_attention there_{};
  Stream stream_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
  std::int64_t elapsed_ns_ = 0;
};

// The first GPU as this thread uses it: kept until the thread ends.
inline Device& device() {
  static thread_local Device first;
  return first;
}

template <class Kernel>
void on_device(const Attention& call, Kernel&& kernel) {
  device().on_device(call, std::forward<Kernel>(kernel));
}

// Refuses, where there is no GPU; where there is one, makes it ready.
inline void open() {
  int count = 0;
  const Status status = ATTEST_GPU(GetDeviceCount)(&count);
  if (status != success || count == 0)
    throw std::runtime_error(std::string("there is no GPU here that it could run on: ") +
                             (status != success ? ATTEST_GPU(GetErrorString)(status) : "none is visible"));
  check(ATTEST_GPU(Free)(nullptr), "the device cannot be used");
}

// A kernel on the first GPU as a subject: kernel(call, stream) gets the tensors there, as Device::on_device() says.
inline Subject subject(std::string name, std::string describe, std::function<void(const Attention&, Stream)> kernel,
                       std::string version = "0") {
  return {std::move(name), std::move(describe),
          [kernel = std::move(kernel)](const Attention& call) { on_device(call, kernel); }, std::move(version), open};
}

}  // namespace cuda
}  // namespace abi1
}  // namespace attest

#undef ATTEST_GPU
#undef ATTEST_GPU_HOST_ALLOC
#undef ATTEST_GPU_HOST_FREE

#endif  // ATTEST_CUDA_HPP
