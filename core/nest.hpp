#pragma once
// The memory of strided tensors a run at a time: filling elements, and looking for what was written between them.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/index.hpp"

namespace attest {

// The places of a tensor's elements, as runs within runs: axes by rising stride, without those along which nothing lies
// apart, and with those made one of which the outer steps over the inner one. A dense tensor has one axis, of stride 1.
struct Nest {
  std::array<Index, 4> extent{1, 1, 1, 1}, stride{1, 0, 0, 0};
  std::size_t axes = 1;  // 0 for an empty tensor
  bool apart = true;     // no two indices share an element, and runs do not lie within each other

  Nest(const std::int64_t* shape, const std::int64_t* strides) noexcept {
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
    Index span = 1;  // from the first to the last element of what is inside
    std::size_t next = 0;
    for (const std::size_t axis : order) {
      if (shape[axis] == 0) {
        axes = 0;
        return;
      }
      if (shape[axis] == 1 || strides[axis] == 0) continue;
      apart = apart && strides[axis] >= span;
      if (next > 0 && strides[axis] == extent[next - 1] * stride[next - 1]) {
        extent[next - 1] *= shape[axis];
      } else {
        extent[next] = shape[axis];
        stride[next++] = strides[axis];
      }
      span += (shape[axis] - 1) * strides[axis];
    }
    axes = std::max<std::size_t>(next, 1);
  }

  // Returns how many elements a run of the first `inner` axes spans.
  [[nodiscard]] Index span(std::size_t inner) const noexcept {
    Index all = 1;
    for (std::size_t axis = 0; axis < inner; ++axis) all += (extent[axis] - 1) * stride[axis];
    return all;
  }
};

// Calls run(first element) for every run of the innermost axis.
template <class Run>
void for_each_run(const Nest& nest, const Run& run) noexcept {
  if (nest.axes == 0) return;
  for (Index i3 = 0; i3 < nest.extent[3]; ++i3)
    for (Index i2 = 0; i2 < nest.extent[2]; ++i2)
      for (Index i1 = 0; i1 < nest.extent[1]; ++i1)
        run(i3 * nest.stride[3] + i2 * nest.stride[2] + i1 * nest.stride[1]);
}

template <class Bits>
void fill_elements(const Nest& nest, std::byte* first, Bits bits) noexcept {
  const Index count = nest.extent[0], stride = nest.stride[0];
  for_each_run(nest, [&](Index at) {
    auto* const begin = reinterpret_cast<Bits*>(first) + at;
    if (stride == 1)
      std::fill_n(begin, count, bits);
    else
      for (Index n = 0; n < count; ++n) begin[n * stride] = bits;
  });
}

inline void fill_elements(const Nest& nest, std::size_t width, std::byte* first, std::uint64_t bits) noexcept {
  switch (width) {
    case 1:
      return fill_elements(nest, first, static_cast<std::uint8_t>(bits));
    case 2:
      return fill_elements(nest, first, static_cast<std::uint16_t>(bits));
    case 4:
      return fill_elements(nest, first, static_cast<std::uint32_t>(bits));
    default:
      return fill_elements(nest, first, bits);
  }
}

// The contents of guards and gaps: the eight bytes of a word, over and over from where the memory of a tensor begins.
struct Filling {
  std::uint64_t word;
  const std::byte* origin;

  // The word as it lies from an address on.
  [[nodiscard]] std::uint64_t from(const std::byte* at) const noexcept {
    const std::uint64_t twice[2] = {word, word};
    std::uint64_t turned = 0;
    std::memcpy(&turned,
                reinterpret_cast<const std::byte*>(twice) + static_cast<std::size_t>(at - origin) % sizeof word,
                sizeof turned);
    return turned;
  }
  void fill(std::byte* at, std::size_t count) const noexcept {
    const std::uint64_t bits = from(at);
    for (; count >= sizeof bits; at += sizeof bits, count -= sizeof bits) std::memcpy(at, &bits, sizeof bits);
    std::memcpy(at, &bits, count);
  }
  // True if all bytes still hold it.
  [[nodiscard]] bool stands(const std::byte* at, std::size_t count) const noexcept {
    const std::uint64_t bits = from(at);
    std::uint64_t differs = 0, now = 0;
    for (; count >= sizeof now; at += sizeof now, count -= sizeof now) {
      std::memcpy(&now, at, sizeof now);
      differs |= now ^ bits;
    }
    now = bits;
    std::memcpy(&now, at, count);
    return (differs | (now ^ bits)) == 0;
  }
};

// The same of what lies between the elements of a nest that lie `apart`.
inline bool gaps_stand(const Filling& fence, const Nest& nest, std::size_t axes, std::size_t width,
                       const std::byte* first) noexcept {
  if (axes == 0 || (axes == 1 && nest.stride[0] == 1)) return true;
  const Index stride = nest.stride[axes - 1] * static_cast<Index>(width),
              inner = nest.span(axes - 1) * static_cast<Index>(width);
  for (Index n = 0; n < nest.extent[axes - 1]; ++n, first += stride) {
    if (!gaps_stand(fence, nest, axes - 1, width, first)) return false;
    if (n + 1 < nest.extent[axes - 1] && !fence.stands(first + inner, static_cast<std::size_t>(stride - inner)))
      return false;
  }
  return true;
}

}  // namespace attest
