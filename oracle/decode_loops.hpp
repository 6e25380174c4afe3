#pragma once
// Bodies of Loops, for the files that make it.
#include <algorithm>
#include <cstddef>

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
  // The conversion takes two steps, for each of which there is an instruction.
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

// Eight rows of eight numbers, by columns.
template <class L>
ATTEST_LANE_FN void turn(const double* rows, Index stride, L (&columns)[lane_count]) {
  if constexpr (L::per_vector == 8) {
    typename L::Vector row[8], pair[8], four[8];
    for (int r = 0; r < 8; ++r) row[r] = load<L>(rows + r * stride).part[0];
    for (int r = 0; r < 8; r += 2) {
      pair[r] = __builtin_shufflevector(row[r], row[r + 1], 0, 8, 2, 10, 4, 12, 6, 14);
      pair[r + 1] = __builtin_shufflevector(row[r], row[r + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int r = 0; r < 8; r += 4)
      for (int odd = 0; odd < 2; ++odd) {
        four[r + odd] = __builtin_shufflevector(pair[r + odd], pair[r + 2 + odd], 0, 1, 8, 9, 4, 5, 12, 13);
        four[r + 2 + odd] = __builtin_shufflevector(pair[r + odd], pair[r + 2 + odd], 2, 3, 10, 11, 6, 7, 14, 15);
      }
    for (int c = 0; c < 4; ++c) {
      columns[c].part[0] = __builtin_shufflevector(four[c], four[4 + c], 0, 1, 2, 3, 8, 9, 10, 11);
      columns[4 + c].part[0] = __builtin_shufflevector(four[c], four[4 + c], 4, 5, 6, 7, 12, 13, 14, 15);
    }
  } else {
    for (int c = 0; c < lane_count; ++c) {
      double column[lane_count];
      for (int r = 0; r < lane_count; ++r) column[r] = rows[r * stride + c];
      columns[c] = load<L>(column);
    }
  }
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

template <class L>
void Loops<L>::turn_eight(const double* rows, Index stride, Index columns, double* to, Index to_stride) {
  for (Index c = 0; c < columns; c += lane_count) {
    L turned[lane_count];
    turn<L>(rows + c, stride, turned);
    for (Index n = 0; n < std::min<Index>(lane_count, columns - c); ++n) store(to + (c + n) * to_stride, turned[n]);
  }
}

template <class L>
void Loops<L>::decode_turned(const DenseRows& from, double* to, Index to_stride) {
  constexpr Index most = 64;  // columns at once
  double block[lane_count * most] = {};
  for (Index j = 0; j < from.rows; j += lane_count) {
    const Index some = std::min<Index>(lane_count, from.rows - j);
    if (some < lane_count) std::fill_n(block, lane_count * most, 0.0);
    for (Index first = 0; first < from.count; first += most) {
      const Index columns = std::min(most, from.count - first);
      const auto* const at =
          static_cast<const std::byte*>(from.first) + (j * from.stride + first) * (from.type.bits / 8);
      decode_padded({from.type, at, some, columns, from.stride}, block, most);
      turn_eight(block, most, columns, to + first * to_stride + j, to_stride);
    }
  }
}

}  // namespace attest::oracle::products
