#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "attest/plugin.h"
#include "core/format.hpp"
#include "core/index.hpp"

namespace attest {

// The type of a tensor's elements: first those of stored_formats.
enum class DType : std::uint8_t { f16, bf16, f32, f64, i32, boolean };
inline constexpr int dtype_count = 6;
constexpr bool is_floating(DType type) noexcept { return static_cast<std::size_t>(type) < stored_formats.size(); }
// As messages and files have it, and as a plug-in is told it.
constexpr std::string_view name(DType type) noexcept {
  if (is_floating(type)) return name(stored_formats[static_cast<std::size_t>(type)]);
  return type == DType::i32 ? "i32" : "bool";
}
inline constexpr auto plugin_dtypes = [] {
  std::array<attest_dtype, dtype_count> types{};
  for (std::size_t n = 0; n < stored_formats.size(); ++n) {
    const FormatTraits& row = traits(stored_formats[n]);
    types[n] = {static_cast<std::uint8_t>(row.dlpack), static_cast<std::uint8_t>(row.bits), 1};
  }
  types[static_cast<std::size_t>(DType::i32)] = {ATTEST_INT, 32, 1};
  types[static_cast<std::size_t>(DType::boolean)] = {ATTEST_BOOL, 8, 1};
  return types;
}();
[[gnu::always_inline]] constexpr attest_dtype plugin_dtype(DType type) noexcept {
  return plugin_dtypes[static_cast<std::size_t>(type)];
}
constexpr std::size_t size_of(DType type) noexcept { return plugin_dtype(type).bits / 8; }
// Throws Error(internal) for tf32, which never lies in memory.
DType dtype_of(Format format);
// Inverse of dtype_of; only for floating-point types.
Format format_of(DType type);
// nullopt if the plug-in type is none of ours.
[[gnu::always_inline]] constexpr std::optional<DType> dtype_of(attest_dtype type) noexcept {
  for (std::size_t n = 0; n < dtype_count; ++n)
    if (plugin_dtypes[n].code == type.code && plugin_dtypes[n].bits == type.bits && type.lanes == 1)
      return static_cast<DType>(n);
  return std::nullopt;
}

// An element of a type: its bits in memory, and the number that they stand for, exactly; or the bits of a number, rounded
// once.
template <DType type>
struct StoredElement {
  static constexpr Format format = is_floating(type) ? stored_formats[static_cast<std::size_t>(type)] : Format::f64;
  static constexpr bool floating = is_floating(type), has_code = floating && is_short(format);
  using Bits = std::conditional_t<
      has_code, std::conditional_t<size_of(type) == 1, std::uint8_t, std::uint16_t>,
      std::conditional_t<type == DType::f32, float,
                         std::conditional_t<type == DType::f64, double,
                                            std::conditional_t<type == DType::i32, std::int32_t, std::uint8_t>>>>;
  static_assert(sizeof(Bits) == size_of(type));
  using Word = std::conditional_t<  // as large
      sizeof(Bits) == 8, std::uint64_t,
      std::conditional_t<sizeof(Bits) == 4, std::uint32_t,
                         std::conditional_t<sizeof(Bits) == 2, std::uint16_t, std::uint8_t>>>;

  [[gnu::always_inline]] static double decoded(Bits bits) noexcept {
    if constexpr (has_code) return attest::decoded(traits(format), bits);
    if constexpr (type == DType::boolean) return bits != 0;
    return static_cast<double>(bits);
  }
  [[gnu::always_inline]] static Bits encoded(double value) noexcept {
    if constexpr (has_code) return static_cast<Bits>(attest::encoded(traits(format), value));
    if constexpr (type == DType::boolean) return value != 0;
    return static_cast<Bits>(value);
  }
  [[gnu::always_inline]] static double load(const void* from) noexcept {
    Bits bits;
    std::memcpy(&bits, from, sizeof bits);
    return decoded(bits);
  }
  [[gnu::always_inline]] static void store(void* to, double value) noexcept {
    const Bits bits = encoded(value);
    std::memcpy(to, &bits, sizeof bits);
  }
};
// Returns visit(StoredElement<type>{}).
template <int from = 0, class Visit>
[[gnu::always_inline]] inline decltype(auto) with_element(DType type, Visit&& visit) {
  constexpr auto here = static_cast<DType>(from);
  if constexpr (from + 1 == dtype_count) {
    return visit(StoredElement<here>{});
  } else {
    if (type == here) return visit(StoredElement<here>{});
    return with_element<from + 1>(type, std::forward<Visit>(visit));
  }
}

// Element access through a view, any floating-point dtype, i32 or bool; rounds once on the way in. Not bounds checked.
double load(const attest_tensor& tensor, Index i0, Index i1 = 0, Index i2 = 0, Index i3 = 0) noexcept;
void store(const attest_tensor& tensor, Index i0, Index i1, Index i2, Index i3, double value) noexcept;

// Calls `visit(i0, i1, i2, i3)` for each element of a shape of up to four axes, the last of them fastest; an index past
// the axes is 0.
template <class Visit>
void for_each_index(std::span<const Index> shape, Visit&& visit) {
  std::array<Index, 4> n{1, 1, 1, 1};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) n[axis] = shape[axis];
  for (Index a = 0; a < n[0]; ++a)
    for (Index b = 0; b < n[1]; ++b)
      for (Index c = 0; c < n[2]; ++c)
        for (Index d = 0; d < n[3]; ++d) visit(a, b, c, d);
}

// Tells whether the offset of some element, counted in elements, does not fit 32 bits with a sign.
bool past_32_bits(std::span<const Index> shape, std::span<const Index> strides) noexcept;

// Returns the size of the guards of a Tensor on either side of its view, in bytes.
std::size_t guard_bytes(const attest_tensor& view) noexcept;

// The memory of a tensor and its guards: in one part, or, where an axis lies far apart (Layout::far), in one for each
// index along it. Memory between parts is only reserved: a write there would make it real.
struct MemoryParts {
  std::byte* first = nullptr;
  std::size_t size = 0;  // bytes of each, guards on either side included
  std::size_t step = 0;  // bytes from one to the next
  std::size_t count = 0;

  [[nodiscard]] std::span<std::byte> part(std::size_t n) const noexcept { return {first + n * step, size}; }
  // The distance from the first byte to the end of the last.
  [[nodiscard]] std::size_t span() const noexcept { return count == 0 ? 0 : (count - 1) * step + size; }
};
// Returns the memory of a tensor whose view begins at its first element.
MemoryParts parts_of(const attest_tensor& view) noexcept;

// Returns the contents of an output's guards and gaps in one call of many: eight bytes that are a NaN of every
// floating-point type wherever an element begins among them, none of which is 0xFF. `key` draws one of 38,416 such
// words.
std::uint64_t fence_word(std::uint64_t key) noexcept;

// A strided tensor of up to four axes that owns its memory, with guard bytes before and after. Guards, and the gaps
// that strides leave, hold bytes 0xFF, or the word that poison() filled them with: every read of them is a NaN.
// Movable; views stay valid across moves.
class Tensor {
 public:
  Tensor() = default;  // absent
  // Takes `strides` in elements, none negative. `base_offset`: elements by which the first one lies off a 64-byte
  // boundary. Elements start as 0xFF bytes. Throws TooLarge past 2^32 bytes of its parts, NotReserved where the system
  // refuses the memory between them.
  Tensor(DType type, std::span<const Index> shape, std::span<const Index> strides, Index base_offset = 0)
      : Tensor(type, shape, strides, base_offset, false) {}
  // Makes a tensor for a caller that is about to write every element: they start undefined, where there are no gaps.
  static Tensor to_be_written(DType type, std::span<const Index> shape, std::span<const Index> strides,
                              Index base_offset = 0) {
    return {type, shape, strides, base_offset, true};
  }
  // Row-major, contiguous.
  Tensor(DType type, std::span<const Index> shape);

  [[nodiscard]] bool present() const noexcept { return block_ != nullptr; }
  [[nodiscard]] DType dtype() const noexcept;
  [[nodiscard]] std::span<const Index> shape() const noexcept;
  [[nodiscard]] std::span<const Index> strides() const noexcept;
  [[nodiscard]] Index size() const noexcept;  // elements of the logical shape
  // Absent tensors give ndim == 0. The view points into this tensor and may write.
  [[nodiscard]] attest_tensor view() const noexcept;
  [[nodiscard]] double at(Index i0, Index i1 = 0, Index i2 = 0, Index i3 = 0) const noexcept;
  void set(Index i0, Index i1, Index i2, Index i3, double value) noexcept;

  // All bytes that it holds, to compare inputs before and after a call.
  [[nodiscard]] MemoryParts parts() const noexcept;
  // The bytes between the guards, of a tensor in one part: what the strides span.
  [[nodiscard]] std::span<std::byte> span_bytes() const noexcept;
  [[nodiscard]] Tensor clone() const;

  static constexpr std::uint64_t plain_fence = ~std::uint64_t{0};
  // Fills every element with the poison NaN of its type, and guards and gaps with a word over and over, if they hold
  // another.
  void poison(std::uint64_t fence = plain_fence) noexcept;
  // Fills every element with a value rounded once (no gap, no guard).
  void fill(double value) noexcept;
  [[nodiscard]] bool is_poison(Index i0, Index i1 = 0, Index i2 = 0, Index i3 = 0) const noexcept;
  // Where something was written outside the elements.
  enum class Damage : std::uint8_t { none, before, after, gap };
  [[nodiscard]] Damage damage() const noexcept;

 private:
  Tensor(DType type, std::span<const Index> shape, std::span<const Index> strides, Index base_offset, bool unset);
  // Header, guard, elements and guard lie in one allocation, so that a Tensor is one pointer.
  struct Block {
    DType type{};
    attest_dtype plugin_type{};
    std::int32_t ndim = 0;
    std::int64_t shape[4] = {1, 1, 1, 1};
    std::int64_t strides[4] = {0, 0, 0, 0};
    std::byte* first = nullptr;         // the first element
    std::size_t header = 0;             // bytes from here to the first guard
    std::size_t guard = 0;              // bytes before and after
    std::size_t base = 0;               // bytes from the end of the first guard to the first element
    std::size_t elements = 0;           // bytes between the guards
    std::uint64_t fence = plain_fence;  // the word that guards and gaps hold
    bool dense = false;                 // no byte between the guards is a gap
    MemoryParts parts;                  // guards, elements and gaps
    void* allocated = nullptr;

    void lie_in(void* room) noexcept;
    [[nodiscard]] std::byte* after_guard() const noexcept { return first - base; }
    [[nodiscard]] Index size() const noexcept { return shape[0] * shape[1] * shape[2] * shape[3]; }
    [[nodiscard, gnu::always_inline]] std::byte* at(Index i0, Index i1, Index i2, Index i3) const noexcept {
      const Index element = i0 * strides[0] + i1 * strides[1] + i2 * strides[2] + i3 * strides[3];
      return first + element * static_cast<Index>(size_of(type));
    }
  };
  struct Free {
    void operator()(Block* block) const noexcept;
  };
  std::unique_ptr<Block, Free> block_;
};

// Here for laws that rewrite tensors element by element.
[[gnu::always_inline]] inline double Tensor::at(Index i0, Index i1, Index i2, Index i3) const noexcept {
  const std::byte* const from = block_->at(i0, i1, i2, i3);
  return with_element(
      block_->type, [from](auto element) __attribute__((always_inline)) { return element.load(from); });
}
[[gnu::always_inline]] inline void Tensor::set(Index i0, Index i1, Index i2, Index i3, double value) noexcept {
  std::byte* const to = block_->at(i0, i1, i2, i3);
  with_element(
      block_->type, [ to, value ](auto element) __attribute__((always_inline)) { element.store(to, value); });
}

// Returns a view's elements in memory of their own: with the same strides, or packed. Absent where the view is.
Tensor copied_as_it_lies(const attest_tensor& from);
Tensor copied_packed(const attest_tensor& from);

}  // namespace attest
