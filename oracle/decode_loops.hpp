#pragma once
// Bodies of Loops, for the files that make it.
#include "core/format.hpp"
#include "oracle/lanes.hpp"
#include "oracle/loops.hpp"

namespace attest::oracle::products {
namespace {

template <class L>
using Halves = Pack<std::uint16_t, L::per_vector>;

template <class L>
ATTEST_LANE_FN L from_f16(const Halves<L>& halves) {
#if defined(__AVX512F__) && defined(__AVX512VL__)
  if constexpr (L::per_vector == 8) {
    typename L::Floats floats;
    floats.part[0] = (typename L::Floats::Vector)_mm256_maskz_cvtph_ps(0xff, (__m128i)halves.part[0]);
    return widen(floats);
  }
#endif
  using Bits = typename L::Bits;
  // In two steps, for each of which there is an instruction.
  const Bits bits = converted<Bits>(converted<Pack<std::uint32_t, L::per_vector>>(halves)), magnitude = bits & 0x7fff;
  constexpr std::int64_t bias = std::int64_t{1023 - 15} << 52;
  const L normal = bits_as<L>((magnitude << 42) + bias);
  // A subnormal is what it adds to the smallest normal.
  const L subnormal = bits_as<L>((magnitude << 42) + (bias + (std::int64_t{1} << 52))) - 0x1p-14;
  const L beyond = bits_as<L>((magnitude << 42) | 0x7ff0000000000000);  // infinity or NaN
  const L size = select(normal < L(0x1p-14), subnormal, select(normal >= L(0x1p16), beyond, normal));
  return bits_as<L>(bits_as<Bits>(size) | ((bits & 0x8000) << 48));
}

template <class L>
ATTEST_LANE_FN L from_bf16(const Halves<L>& halves) {
  return widen(bits_as<typename L::Floats>(converted<Pack<std::uint32_t, L::per_vector>>(halves) << 16));
}

// `convert` turns eight of type T into lanes, `one` a single one.
template <class Bits, class T, class Convert, class One>
ATTEST_LANE_FN void decode(const T* from, Index count, double* to, Convert convert, One one) {
  Index n = 0;
  for (; n + lane_count <= count; n += lane_count) store(to + n, convert(load<Bits>(from + n)));
  for (; n < count; ++n) to[n] = one(from[n]);
}

}  // namespace

template <class L>
void Loops<L>::decode_f16(const std::uint16_t* from, Index count, double* to) {
  decode<Halves<L>>(
      from, count, to, [](const Halves<L>& x) __attribute__((always_inline)) { return from_f16<L>(x); },
      attest::decode_f16);
}

template <class L>
void Loops<L>::decode_bf16(const std::uint16_t* from, Index count, double* to) {
  decode<Halves<L>>(
      from, count, to, [](const Halves<L>& x) __attribute__((always_inline)) { return from_bf16<L>(x); },
      attest::decode_bf16);
}

template <class L>
void Loops<L>::decode_f32(const float* from, Index count, double* to) {
  using Floats = typename L::Floats;
  decode<Floats>(
      from, count, to, [](const Floats& x) __attribute__((always_inline)) { return widen(x); },
      [](float x) { return static_cast<double>(x); });
}

template <class L>
void Loops<L>::decode_padded(const DenseRows& from, double* to, Index to_stride) {
  // `eight_at` an element, as lanes.
  const auto whole_lanes = [&](const auto* first, const auto& eight_at) __attribute__((always_inline)) {
    const Index whole = from.count / lane_count * lane_count;
    const typename L::Bits inside = lane_numbers<L>() < static_cast<double>(from.count - whole);
    for (Index r = 0; r < from.rows; ++r, first += from.stride, to += to_stride) {
      for (Index n = 0; n < whole; n += lane_count) store(to + n, eight_at(first + n));
      if (whole < from.count) store(to + whole, zero_unless(inside, eight_at(first + whole)));
    }
  };
  const auto* halves = static_cast<const std::uint16_t*>(from.first);
  if (from.type.bits == 64)
    whole_lanes(
        static_cast<const double*>(from.first),
        [](const double* at) __attribute__((always_inline)) { return load<L>(at); });
  else if (from.type.bits == 32)
    whole_lanes(
        static_cast<const float*>(from.first),
        [](const float* at) __attribute__((always_inline)) { return widen(load<typename L::Floats>(at)); });
  else if (from.type.code == ATTEST_BFLOAT)
    whole_lanes(
        halves,
        [](const std::uint16_t* at) __attribute__((always_inline)) { return from_bf16<L>(load<Halves<L>>(at)); });
  else
    whole_lanes(
        halves,
        [](const std::uint16_t* at) __attribute__((always_inline)) { return from_f16<L>(load<Halves<L>>(at)); });
}

}  // namespace attest::oracle::products
