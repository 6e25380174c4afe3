#pragma once
// Bodies of Loops, for the files that make it.
#include <cmath>
#include <cstdint>

#include "oracle/half_gap.hpp"
#include "oracle/loops.hpp"

namespace attest::oracle::products {
namespace {

// Smaller weights count for nothing, and their squares would be subnormal floats.
constexpr double least_weight = 0x1p-62, ln_least_weight = 43;

// Sixteen columns from c on, for which there are registers as wide as eight doubles.
template <int Rows>
ATTEST_LANE_FN void moments_of_sixteen(const float* w, const float* w2, Index stride, const float* v, const float* v2,
                                       Index keys, Index columns, Index c, float* first, float* second, bool add) {
  typedef float Vector __attribute__((vector_size(64)));
  typedef float Unaligned __attribute__((vector_size(64), aligned(alignof(float)), may_alias));
  const auto at = [](const float* from) __attribute__((always_inline)) {
    return (Vector) * reinterpret_cast<const Unaligned*>(from);
  };
  Vector one[Rows], two[Rows];
  for (int r = 0; r < Rows; ++r) {
    one[r] = add ? at(first + r * columns + c) : Vector{};
    two[r] = add ? at(second + r * columns + c) : Vector{};
  }
  for (Index j = 0; j < keys; ++j) {
    const Vector value = at(v + j * columns + c), squared = at(v2 + j * columns + c);
    for (int r = 0; r < Rows; ++r) {
      one[r] += w[r * stride + j] * value;
      two[r] += w2[r * stride + j] * squared;
    }
  }
  for (int r = 0; r < Rows; ++r) {
    *reinterpret_cast<Unaligned*>(first + r * columns + c) = one[r];
    *reinterpret_cast<Unaligned*>(second + r * columns + c) = two[r];
  }
}

template <class L, int Rows>
ATTEST_LANE_FN void moment_rows(const float* w, const float* w2, Index stride, const float* v, const float* v2,
                                Index keys, Index columns, float* first, float* second, bool add) {
  Index c = 0;
  if constexpr (L::per_vector == 8)
    for (; c + 16 <= columns; c += 16)
      moments_of_sixteen<Rows>(w, w2, stride, v, v2, keys, columns, c, first, second, add);
  for (; c < columns; c += lane_count) {
    typename L::Floats one[Rows], two[Rows];
    for (int r = 0; r < Rows; ++r) {
      one[r] = add ? load<typename L::Floats>(first + r * columns + c) : typename L::Floats{};
      two[r] = add ? load<typename L::Floats>(second + r * columns + c) : typename L::Floats{};
    }
    const float *at = v + c, *at2 = v2 + c;
    for (Index j = 0; j < keys; ++j, at += columns, at2 += columns) {
      const typename L::Floats value = load<typename L::Floats>(at), squared = load<typename L::Floats>(at2);
      for (int r = 0; r < Rows; ++r) {
        one[r] += w[r * stride + j] * value;
        two[r] += w2[r * stride + j] * squared;
      }
    }
    for (int r = 0; r < Rows; ++r) {
      store(first + r * columns + c, one[r]);
      store(second + r * columns + c, two[r]);
    }
  }
}

}  // namespace

template <class L>
double Loops<L>::variances(const VarianceRule& rule, const double* z, const double* bias, float* variance, Index keys) {
  const double counts = rule.z_max - ln_least_weight;
  L top = fill<L>(0);
  for (Index j = 0; j < keys; j += lane_count) {
    const L score = load<L>(z + j);
    const typename L::Bits attended = score > -lane_infinity;
    const L m = bias == nullptr ? fill<L>(0) : load<L>(bias + j), s = score - m, below = rule.z_max - score;
    const L sum = rule.constant + rule.per_s * (s * s) +
                  (rule.per_z * (score * score) + rule.per_below * (below * below)) + rule.per_bias * (m * m);
    store(variance + j, narrow(zero_unless(attended, sum)));
    top = max(top, zero_unless(score >= counts, sum));
  }
  return largest(top);
}

template <class L>
SquareSums Loops<L>::square_weights(const SquareRule& rule, const double* p, float* w, float* w2, Index keys) {
  L sum_w = fill<L>(0), sum_p2 = sum_w;
  typename L::Bits hides = sum_w != sum_w;
  for (Index j = 0; j < keys; j += lane_count) {
    const L weight = load<L>(p + j), p2 = zero_unless(weight > least_weight, weight * weight);
    const L variance = widen(load<typename L::Floats>(w + j)),
            moved = zero_unless(weight > least_weight, p2 * variance);
    hides = hides | (~(weight > least_weight) & ~(variance < lane_infinity));
    const L carried = p2 * select(weight >= rule.least, fill<L>(rule.rounded), fill<L>(rule.every));
    store(w + j, narrow(moved));
    store(w2 + j, narrow(moved + carried));
    sum_w += moved;
    sum_p2 += p2;
  }
  return SquareSums{sum(sum_w), sum(sum_p2), bits_of(hides) != 0};
}

template <class L>
void Loops<L>::squares(const double* v, double scale, float* scaled, float* squared, Index count) {
  for (Index n = 0; n < count; n += lane_count) {
    const L value = load<L>(v + n) * scale;
    store(scaled + n, narrow(value));
    store(squared + n, narrow(value * value));
  }
}

template <class L>
void Loops<L>::moments(const float* w, const float* w2, Index stride, Index rows, const float* v, const float* v2,
                       Index keys, Index columns, float* first, float* second, bool add) {
  in_groups<L::per_vector / 2>(
      rows, [&]<int Rows>(Index r) __attribute__((always_inline)) {
        moment_rows<L, Rows>(w + r * stride, w2 + r * stride, stride, v, v2, keys, columns, first + r * columns,
                             second + r * columns, add);
      });
}

template <class L>
SpreadSums Loops<L>::spread(const SpreadRule& rule, const double* y, const float* first, const float* second,
                            const double* out, Index columns, Index count, std::uint8_t* near) {
  // In the units of the moments, in which no square over- or underflows.
  L total = fill<L>(0), top = total, finite = total;
  typename L::Bits all_near = total == 0.0;
  const double inverse = rule.unit2 * rule.inverse_mass * rule.inverse_mass;
  const double absolute = rule.absolute * rule.scale, gap_tiny = rule.gap > 0 ? rule.tiny : 0;
  const double second_weight = 1 - 2 * rule.epsilon, mean_weight = rule.weight_sum * (1 - rule.epsilon);
  const double limit = rule.limit * rule.limit, least_half_ulp = rule.tiny * rule.scale;
  for (Index c = 0; c < columns; c += lane_count) {
    const L mean = load<L>(y + c), got = load<L>(out + c), scaled = mean * rule.scale, mean2 = scaled * scaled;
    const L m1 = widen(load<typename L::Floats>(first + c)), m2 = widen(load<typename L::Floats>(second + c));
    const L moved = m2 * second_weight - 2.0 * scaled * m1 + mean2 * mean_weight - rule.underflow;
    const L s2 = max(moved, fill<L>(0)) * inverse + rule.per_mean2 * mean2 + absolute * absolute;
    const L error = abs(got - mean) * rule.scale;
    // Of elements that are their mean, as of rows of one key, and of those as near as their format has them, nothing is divided.
    const typename L::Bits off = error > 0.0;
    const bool some_off = bits_of(off) != 0;
    L beyond = fill<L>(0);
    if (some_off) beyond = max(error - half_gap(got, mean, rule.gap, gap_tiny) * rule.scale, fill<L>(0));
    const L half_ulp = max(abs(scaled) * rule.unit, fill<L>(least_half_ulp));
    const L variance = s2 + rule.floor * rule.floor + half_ulp * half_ulp * (1.0 / 3);
    // What float32 loses where values differ by little beside their mean.
    const L lost = (rule.epsilon * (2.0 * m2 + rule.weight_sum * mean2) + rule.underflow) * inverse;
    const typename L::Bits known = abs(got) < lane_infinity,
                           inside = lane_numbers<L>() < static_cast<double>(count - c);
    const typename L::Bits counted = inside & known & (lost <= 0.5 * variance);
    if (some_off) total += zero_unless(counted & off, error * error / variance);
    finite += zero_unless(counted, fill<L>(1));
    const L beyond2 = beyond * beyond;
    const typename L::Bits is_near = (known & (beyond2 <= limit * s2)) | ~inside;
    const typename L::Bits outside = inside & is_near & (beyond > 0.0);
    if (bits_of(outside) != 0) top = max(top, zero_unless(outside, beyond2 / s2));
    all_near &= is_near;
    near[c / lane_count] = bits_of(is_near);
  }
  return SpreadSums{sum(total), sum(finite), std::sqrt(largest(top)), bits_of(all_near) == 0xff};
}

template <class L>
bool Loops<L>::near_by_mean(const NearRule& rule, const double* y, const double* out, Index columns, Index count,
                            std::uint8_t* near) {
  typename L::Bits all_near = fill<L>(0) == 0.0;
  const double gap_tiny = rule.gap > 0 ? rule.tiny : 0;
  for (Index c = 0; c < columns; c += lane_count) {
    const L mean = load<L>(y + c), got = load<L>(out + c), scaled = mean * rule.scale;
    const L beyond = max((abs(got - mean) - half_gap(got, mean, rule.gap, gap_tiny)) * rule.scale, fill<L>(0));
    const typename L::Bits known = abs(got) < lane_infinity,
                           inside = lane_numbers<L>() < static_cast<double>(count - c);
    const typename L::Bits is_near =
        (known & (beyond * beyond <= rule.per_mean2 * (scaled * scaled) + rule.absolute)) | ~inside;
    all_near &= is_near;
    near[c / lane_count] = bits_of(is_near);
  }
  return bits_of(all_near) == 0xff;
}

}  // namespace attest::oracle::products
