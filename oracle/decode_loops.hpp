#pragma once
// Bodies of Loops, for the files that make it.
#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "core/tensor.hpp"
#include "oracle/lanes.hpp"
#include "oracle/loops.hpp"

namespace attest::oracle::products {
namespace {

template <class L, Format format, class Bits>
ATTEST_LANE_FN L from_code(const Pack<Bits, L::per_vector>& codes) {
  constexpr const FormatTraits& row = traits(format);
#if defined(__AVX512F__) && defined(__AVX512VL__)
  if constexpr (format == Format::f16 && L::per_vector == 8) {
    typename L::Floats floats;
    floats.part[0] = (typename L::Floats::Vector)_mm256_maskz_cvtph_ps(0xff, (__m128i)codes.part[0]);
    return widen(floats);
  }
#endif
  const auto words = converted<Pack<std::uint32_t, L::per_vector>>(codes);
  if constexpr (row.begins_f32()) {
    return widen(bits_as<typename L::Floats>(words << (32 - row.bits)));
  } else {
    using Wide = typename L::Bits;
    constexpr auto sign = static_cast<std::int64_t>(row.sign);
    constexpr std::int64_t bias = std::int64_t{1023 + row.min_exponent - 1} << 52, one = std::int64_t{1} << 52;
    constexpr std::int64_t infinite = 0x7ff0000000000000, past = row.has_infinity() ? infinite : infinite | one >> 1;
    const Wide bits = converted<Wide>(words), significand = (bits & (sign - 1)) << (53 - row.precision);
    const L normal = bits_as<L>(significand + bias);
    // A subnormal is what it adds to the smallest normal.
    const L subnormal = bits_as<L>(significand + (bias + one)) - row.smallest_normal;
    const L size = select(normal < L(row.smallest_normal), subnormal,
                          select(normal > L(row.largest_finite), bits_as<L>(significand | past), normal));
    return bits_as<L>(bits_as<Wide>(size) | ((bits & sign) << (64 - row.bits)));
  }
}

// Elements of a floating-point type, the first of them at `at`.
template <class L, class Element>
ATTEST_LANE_FN L eight_at(const typename Element::Bits* at) {
  using Bits = typename Element::Bits;
  if constexpr (Element::has_code)
    return from_code<L, Element::format, Bits>(load<Pack<Bits, L::per_vector>>(at));
  else if constexpr (std::is_same_v<Bits, float>)
    return widen(load<typename L::Floats>(at));
  else
    return load<L>(at);
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
void Loops<L>::decode(DType type, const void* from, Index count, double* to) {
  with_element(
      type, [=](auto element) __attribute__((always_inline)) {
        using Element = decltype(element);
        if constexpr (Element::floating) {
          const auto* const bits = static_cast<const typename Element::Bits*>(from);
          Index n = 0;
          for (; n + lane_count <= count; n += lane_count) store(to + n, eight_at<L, Element>(bits + n));
          for (; n < count; ++n) to[n] = Element::decoded(bits[n]);
        }
      });
}

template <class L>
void Loops<L>::decode_padded(const DenseRows& from, double* to, Index to_stride) {
  with_element(
      *dtype_of(from.type), [&](auto element) __attribute__((always_inline)) {
        using Element = decltype(element);
        if constexpr (Element::floating) {
          const auto* first = static_cast<const typename Element::Bits*>(from.first);
          const Index whole = from.count / lane_count * lane_count;
          const typename L::Bits inside = lane_numbers<L>() < static_cast<double>(from.count - whole);
          for (Index r = 0; r < from.rows; ++r, first += from.stride, to += to_stride) {
            for (Index n = 0; n < whole; n += lane_count) store(to + n, eight_at<L, Element>(first + n));
            if (whole < from.count) store(to + whole, zero_unless(inside, eight_at<L, Element>(first + whole)));
          }
        }
      });
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
