#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "subjects/message.hpp"

// A trip as it lies in a mailbox (docs/worker.md, "The mailbox"): the numbers of the JSON message in their own bytes,
// in the order of this machine. For both ends.
namespace attest {

struct PackedTrip {
  std::uint32_t calls, subject;  // the place of the subject among those described
  std::uint64_t timeout_ms, arena_bytes, reserved;
};

// Then the numbers of its operation, where their ScalarSlots say; its tensors; and the JSON text of its form.
struct PackedCall {
  std::uint32_t bytes, op;  // from this call to the next, a multiple of 8; CallShape::number
  std::uint32_t flags;
  std::uint32_t tensors;  // bit i: the i-th of its slots is there
};

struct PackedTensor {
  std::uint64_t offset;
  std::uint32_t dtype, ndim;  // the place in f16, bf16, f32, f64, i32, bool
  std::int64_t shape[4], strides[4];
};
static_assert(sizeof(PackedTrip) == 32 && sizeof(PackedCall) == 16 && sizeof(PackedTensor) == 80);

// Packs a trip. Returns the bytes that it takes in `to`; 0 if it does not fit.
std::size_t pack(PackedTrip trip, std::span<const Call> calls, std::span<const TensorOffsets> offsets,
                 std::span<std::byte> to);

// Reads the trip's head, and then one call after the other.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> message);
  [[nodiscard]] const PackedTrip& trip() const noexcept { return trip_; }
  // Returns the rest of the message, at the next call. Throws Error(usage) if it is not as docs/worker.md says.
  std::span<const std::byte> next();

 private:
  std::span<const std::byte> rest_;
  PackedTrip trip_{};
};

}  // namespace attest
