#include "subjects/packed_call.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "core/error.hpp"
#include "core/tensor.hpp"

namespace attest {
namespace {

// Writes one thing behind the other, as long as they fit.
class Writer {
 public:
  explicit Writer(std::span<std::byte> to) : to_(to) {}

  void put(const void* from, std::size_t bytes) {
    if (bytes > to_.size() - done_) fits_ = false;
    if (!fits_) return;
    std::memcpy(to_.data() + done_, from, bytes);
    done_ += bytes;
  }
  [[nodiscard]] std::size_t done() const noexcept { return fits_ ? done_ : 0; }

 private:
  std::span<std::byte> to_;
  std::size_t done_ = 0;
  bool fits_ = true;
};

PackedTensor packed(const attest_tensor& view, std::size_t offset) {
  const std::optional<DType> type = dtype_of(view.dtype);
  if (!type) throw internal_error("a call holds a tensor of a type that attest does not have");
  PackedTensor tensor{offset, static_cast<std::uint32_t>(*type), static_cast<std::uint32_t>(view.ndim), {}, {}};
  std::copy_n(view.shape, view.ndim, tensor.shape);
  std::copy_n(view.strides, view.ndim, tensor.strides);
  return tensor;
}

// The numbers of a call, and the flags among them.
struct PackedScalars {
  std::array<std::byte, 256> bytes{};
  std::uint32_t flags = 0;

  explicit PackedScalars(const Call& call) {
    for (const ScalarSlot& scalar : call.shape().scalars) {
      switch (scalar.kind) {
        case ScalarSlot::Kind::real:
          put(scalar.packed, finite(call, scalar));
          break;
        case ScalarSlot::Kind::flag:
        case ScalarSlot::Kind::bit:
          flags |= static_cast<std::uint32_t>(call.integer(scalar)) << scalar.packed;
          break;
        case ScalarSlot::Kind::small:
          put(scalar.packed, static_cast<std::int32_t>(call.integer(scalar)));
          break;
        case ScalarSlot::Kind::whole:
          put(scalar.packed, call.integer(scalar));
          break;
      }
    }
  }
  template <class T>
  void put(std::size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
};

void put_call(Writer& to, const Call& call, const TensorOffsets& offsets) {
  const CallShape& shape = call.shape();
  const std::string_view form = call.form() != nullptr ? call.form() : "";
  const std::size_t padded = (form.size() + 7) / 8 * 8;
  PackedScalars scalars(call);
  scalars.put(shape.packed_form, static_cast<std::uint32_t>(form.size()));
  PackedCall head{0, shape.number, scalars.flags, 0};
  std::size_t tensors = 0;
  for (std::size_t i = 0; i < shape.tensors.size(); ++i)
    if (attest_present(&call.tensor(shape.tensors[i]))) {
      head.tensors |= 1u << i;
      ++tensors;
    }
  head.bytes = static_cast<std::uint32_t>(sizeof head + shape.packed_bytes + tensors * sizeof(PackedTensor) + padded);
  to.put(&head, sizeof head);
  to.put(scalars.bytes.data(), shape.packed_bytes);
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    const attest_tensor& view = call.tensor(shape.tensors[i]);
    if (!attest_present(&view)) continue;
    const PackedTensor tensor = packed(view, offsets[i]);
    to.put(&tensor, sizeof tensor);
  }
  constexpr std::byte nothing[8]{};
  to.put(form.data(), form.size());
  to.put(nothing, padded - form.size());
}

}  // namespace

std::size_t pack(PackedTrip trip, std::span<const Call> calls, std::span<const TensorOffsets> offsets,
                 std::span<std::byte> to) {
  Writer writer(to);
  trip.calls = static_cast<std::uint32_t>(calls.size());
  writer.put(&trip, sizeof trip);
  for (std::size_t c = 0; c < calls.size(); ++c) put_call(writer, calls[c], offsets[c]);
  return writer.done();
}

Unpacker::Unpacker(std::span<const std::byte> message) : rest_(message.subspan(sizeof trip_)) {
  std::memcpy(&trip_, message.data(), sizeof trip_);
}

std::span<const std::byte> Unpacker::next() {
  std::uint32_t bytes = 0;
  if (rest_.size() >= sizeof bytes) std::memcpy(&bytes, rest_.data(), sizeof bytes);
  if (bytes < sizeof(PackedCall) || bytes > rest_.size() || bytes % 8 != 0)
    throw usage_error("the call is not as docs/worker.md says");
  const std::span<const std::byte> call = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return call;
}

}  // namespace attest
