#include <cmath>
#include <cstdint>
#include <limits>

#include "oracle/clones.hpp"
#include "oracle/products.hpp"

namespace attest::oracle::products {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// Smaller weights count for nothing, and their squares would be subnormal floats.
constexpr double least_weight = 0x1p-62, ln_least_weight = 43;

ATTEST_LANE_FN Lanes square_root(Lanes x) {
  Lanes root;
  for (int n = 0; n < lane_count; ++n) root[n] = std::sqrt(x[n]);
  return root;
}

template <int Rows>
ATTEST_LANE_FN void moment_rows(const float* w, const float* w2, Index stride, const float* v, const float* v2,
                                Index keys, Index columns, float* first, float* second, bool add) {
  for (Index c = 0; c < columns; c += lane_count) {
    FloatLanes one[Rows], two[Rows];
    for (int r = 0; r < Rows; ++r) {
      one[r] = add ? load(first + r * columns + c) : FloatLanes{};
      two[r] = add ? load(second + r * columns + c) : FloatLanes{};
    }
    const float *at = v + c, *at2 = v2 + c;
    for (Index j = 0; j < keys; ++j, at += columns, at2 += columns) {
      const FloatLanes value = load(at), squared = load(at2);
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

ATTEST_CLONES
double variances(const VarianceRule& rule, const double* z, const double* bias, float* variance, Index keys) {
  const double counts = rule.z_max - ln_least_weight;
  Lanes top = fill(0);
  for (Index j = 0; j < keys; j += lane_count) {
    const Lanes score = load(z + j);
    const LaneBits attended = score > -infinity;
    const Lanes m = bias == nullptr ? fill(0) : load(bias + j), s = score - m, below = rule.z_max - score;
    const Lanes sum = rule.constant + rule.per_s * (s * s) +
                      (rule.per_z * (score * score) + rule.per_below * (below * below)) + rule.per_bias * (m * m);
    store(variance + j, narrow(zero_unless(attended, sum)));
    top = max(top, zero_unless(score >= counts, sum));
  }
  return largest(top);
}

ATTEST_CLONES
SquareSums square_weights(const SquareRule& rule, const double* p, float* w, float* w2, Index keys) {
  Lanes sum_w = fill(0), sum_p2 = sum_w;
  for (Index j = 0; j < keys; j += lane_count) {
    const Lanes weight = load(p + j), p2 = zero_unless(weight > least_weight, weight * weight);
    const Lanes moved = p2 * widen(load(w + j));
    const Lanes carried = p2 * select(weight >= rule.least, fill(rule.rounded), fill(rule.every));
    store(w + j, narrow(moved));
    store(w2 + j, narrow(moved + carried));
    sum_w += moved;
    sum_p2 += p2;
  }
  return {sum(sum_w), sum(sum_p2)};
}

ATTEST_CLONES
void squares(const double* v, double scale, float* scaled, float* squared, Index count) {
  for (Index n = 0; n < count; n += lane_count) {
    const Lanes value = load(v + n) * scale;
    store(scaled + n, narrow(value));
    store(squared + n, narrow(value * value));
  }
}

ATTEST_CLONES
void moments(const float* w, const float* w2, Index stride, Index rows, const float* v, const float* v2, Index keys,
             Index columns, float* first, float* second, bool add) {
  switch (rows) {
    case 4:
      return moment_rows<4>(w, w2, stride, v, v2, keys, columns, first, second, add);
    case 3:
      return moment_rows<3>(w, w2, stride, v, v2, keys, columns, first, second, add);
    case 2:
      return moment_rows<2>(w, w2, stride, v, v2, keys, columns, first, second, add);
    default:
      return moment_rows<1>(w, w2, stride, v, v2, keys, columns, first, second, add);
  }
}

ATTEST_CLONES
SpreadSums spread(const SpreadRule& rule, const double* y, const float* first, const float* second, const double* out,
                  Index columns, Index count, std::uint8_t* near) {
  // In the units of the moments, in which no square over- or underflows.
  Lanes total = fill(0), top = total, finite = total;
  const double inverse = rule.unit2 * rule.inverse_mass * rule.inverse_mass;
  const double absolute = rule.absolute * rule.scale, gap_tiny = rule.gap > 0 ? rule.tiny : 0;
  const double second_weight = 1 - 2 * rule.epsilon, mean_weight = rule.weight_sum * (1 - rule.epsilon);
  for (Index c = 0; c < columns; c += lane_count) {
    const Lanes mean = load(y + c), got = load(out + c), scaled = mean * rule.scale, magnitude = abs(scaled);
    const Lanes m1 = widen(load(first + c)), m2 = widen(load(second + c));
    const Lanes moved = m2 * second_weight - 2.0 * scaled * m1 + scaled * scaled * mean_weight;
    const Lanes x2 = max(moved, fill(0)) * inverse + rule.per_mean2 * (scaled * scaled) + absolute * absolute;
    const Lanes s = square_root(x2) + rule.linear * magnitude;
    const Lanes error = abs(got - mean) * rule.scale;
    const Lanes beyond = max(error - half_gap(got, mean, rule.gap, gap_tiny) * rule.scale, fill(0));
    const LaneBits known = abs(got) < infinity, inside = lane_numbers() < static_cast<double>(count - c);
    const Lanes half_ulp = max(magnitude * rule.unit, fill(rule.tiny * rule.scale));
    const Lanes variance = s * s + rule.floor * rule.floor + half_ulp * half_ulp * (1.0 / 3);
    // What float32 loses where values differ by little beside their mean.
    const Lanes lost = (rule.epsilon * (2.0 * m2 + rule.weight_sum * (scaled * scaled))) * inverse;
    const LaneBits counted = inside & known & (lost <= 0.5 * variance);
    total += zero_unless(counted & (error > 0.0), error * error / variance);
    finite += zero_unless(counted, fill(1));
    const LaneBits is_near = known & (beyond <= rule.limit * s);
    top = max(top, zero_unless(inside & is_near & (beyond > 0.0), beyond / s));
    near[c / lane_count] = bits_of(is_near | ~inside);
  }
  return {sum(total), sum(finite), largest(top)};
}

}  // namespace attest::oracle::products
