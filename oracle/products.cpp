#include "oracle/products.hpp"

#include <cstdint>
#include <limits>

#include "oracle/clones.hpp"
#include "oracle/exp.hpp"
#include "oracle/lanes.hpp"

namespace attest::oracle::products {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double slack = 1 - 1e-6;

template <int Rows>
ATTEST_LANE_FN void score_rows(const double* q, Index q_stride, const double* kt, Index kt_stride, Index d, Index keys,
                               double* s, Index s_stride) {
  for (Index j = 0; j < keys; j += lane_count) {
    Lanes total[Rows];
    for (int r = 0; r < Rows; ++r) total[r] = fill(0);
    const double* k = kt + j;
    for (Index c = 0; c < d; ++c, k += kt_stride) {
      const Lanes kc = load(k);
      for (int r = 0; r < Rows; ++r) total[r] += q[r * q_stride + c] * kc;
    }
    for (int r = 0; r < Rows; ++r) store(s + r * s_stride + j, total[r]);
  }
}

template <int Rows>
ATTEST_LANE_FN void value_rows(const double* p, const double* m, Index stride, const double* v, Index keys,
                               Index columns, double* y, double* reach, bool add) {
  for (Index c = 0; c < columns; c += lane_count) {
    Lanes mean[Rows], far[Rows];
    for (int r = 0; r < Rows; ++r) {
      mean[r] = add ? load(y + r * columns + c) : fill(0);
      far[r] = add ? load(reach + r * columns + c) : fill(0);
    }
    const double* at = v + c;
    for (Index j = 0; j < keys; ++j, at += columns) {
      const Lanes value = load(at), magnitude = abs(value);
      for (int r = 0; r < Rows; ++r) {
        mean[r] += p[r * stride + j] * value;
        far[r] += m[r * stride + j] * magnitude;
      }
    }
    for (int r = 0; r < Rows; ++r) {
      store(y + r * columns + c, mean[r]);
      store(reach + r * columns + c, far[r]);
    }
  }
}

}  // namespace

ATTEST_CLONES
void scores(const double* q, Index q_stride, Index rows, const double* kt, Index kt_stride, Index d, Index keys,
            double* s, Index s_stride) {
  switch (rows) {
    case 4:
      return score_rows<4>(q, q_stride, kt, kt_stride, d, keys, s, s_stride);
    case 3:
      return score_rows<3>(q, q_stride, kt, kt_stride, d, keys, s, s_stride);
    case 2:
      return score_rows<2>(q, q_stride, kt, kt_stride, d, keys, s, s_stride);
    default:
      return score_rows<1>(q, q_stride, kt, kt_stride, d, keys, s, s_stride);
  }
}

ATTEST_CLONES
double largest_absolute_score(const double* q, const double* kt, Index kt_stride, Index d, Index keys) {
  Lanes top = fill(0);
  for (Index j = 0; j < keys; j += lane_count) {
    Lanes total = fill(0);
    for (Index c = 0; c < d; ++c) total += abs(q[c] * load(kt + c * kt_stride + j));
    top = max(top, total);
  }
  return largest(top);
}

ATTEST_CLONES
SquareExtent square_sums(const double* a, Index stride, Index rows, Index columns) {
  Lanes top = fill(0), total = top, element = top;
  for (Index j = 0; j < columns; j += lane_count) {
    Lanes squares = fill(0);
    for (Index c = 0; c < rows; ++c) {
      const Lanes x = load(a + c * stride + j), square = x * x;
      squares += square;
      element = max(element, square);
    }
    top = max(top, squares);
    total += squares;
  }
  return {largest(top), largest(element), sum(total)};
}

ATTEST_CLONES
Extent magnitudes(const double* a, Index count) {
  Lanes top = fill(0), total = top;
  for (Index n = 0; n < count; n += lane_count) {
    const Lanes x = abs(load(a + n));
    top = max(top, x);
    total += x;
  }
  return {largest(top), sum(total)};
}

ATTEST_CLONES
ScoreSums finish_scores(const ScoreRule& rule, double* s, double* e, const double* bias, const double* open,
                        Index count, Index keys) {
  const double c = rule.softcap;
  const bool cap_first = c > 0 && rule.softcap_before_bias, cap_last = c > 0 && !rule.softcap_before_bias;
  Lanes top = fill(-infinity), n = fill(0);
  for (Index j = 0; j < keys; j += lane_count) {
    Lanes z = load(s + j) * rule.scale, error = rule.per_s * abs(z);
    if (cap_first) {
      z = c * tanh(z / c);
      error = min(error, fill(2 * c)) + rule.per_capped * abs(z);
    }
    if (bias != nullptr) {
      const Lanes m = load(bias + j);
      z += m;
      error += zero_unless(m != 0.0, rule.u_score * abs(z) + rule.u_bias * abs(m));
    }
    if (cap_last) {
      z = c * tanh(z / c);
      error = min(error, fill(2 * c)) + rule.per_capped * abs(z);
    }
    if (open != nullptr) z += load(open + j);
    if (j + lane_count > count) z = select(lane_numbers() < static_cast<double>(count - j), z, fill(-infinity));
    const LaneBits attended = z > -infinity;
    error = zero_unless(attended, error + rule.u_softmax * abs(z));
    n += zero_unless(attended, fill(1));
    top = max(top, z);
    store(s + j, z);
    store(e + j, error);
  }
  return {largest(top), sum(n)};
}

ATTEST_CLONES
double largest_bias_above(const double* z, const double* bias, double threshold, Index keys) {
  Lanes top = fill(0);
  for (Index j = 0; j < keys; j += lane_count)
    top = max(top, zero_unless(load(z + j) >= threshold, abs(load(bias + j))));
  return largest(top);
}

ATTEST_CLONES
WeightSums weigh(const WeightRule& rule, double* z, double* e, double* m, Index keys) {
  Lanes mass = fill(0), gain = mass;
  const double top = rule.z_max < 0 ? -rule.z_max : rule.z_max;
  const double constant = rule.constant + rule.u_softmax * (rule.a2 * rule.shift + rule.a3 * rule.lazy);
  const double u1 = rule.u_softmax * rule.a1, u2 = rule.u_softmax * rule.a2, u3 = rule.u_softmax * rule.a3;
  for (Index j = 0; j < keys; j += lane_count) {
    const Lanes score = load(z + j), error = load(e + j);
    const LaneBits attended = score > -infinity;
    const Lanes magnitude = zero_unless(attended, abs(score)), below = zero_unless(attended, rule.z_max - score);
    const Lanes p = zero_unless(attended, exp(score - rule.z_max));
    const Lanes d = error + u1 * (magnitude + error) + u2 * max(magnitude, fill(top)) + u3 * below + constant;
    const Lanes cut = min(d, fill(rule.cap));
    const Lanes moved = rule.gain * p * (cut * (1.0 - 0.5 * cut));  // 1 - e^-d >= d - d^2/2
    store(z + j, p);
    store(e + j, d);
    store(m + j, rule.t * p + moved);
    mass += p;
    gain += moved;
  }
  return {sum(mass), sum(gain)};
}

ATTEST_CLONES
void values(const double* p, const double* m, Index stride, Index rows, const double* v, Index keys, Index columns,
            double* y, double* reach, bool add) {
  switch (rows) {
    case 4:
      return value_rows<4>(p, m, stride, v, keys, columns, y, reach, add);
    case 3:
      return value_rows<3>(p, m, stride, v, keys, columns, y, reach, add);
    case 2:
      return value_rows<2>(p, m, stride, v, keys, columns, y, reach, add);
    default:
      return value_rows<1>(p, m, stride, v, keys, columns, y, reach, add);
  }
}

ATTEST_CLONES
void accept(const AcceptRule& rule, double* y, const double* reach, const double* out, Index columns,
            std::uint8_t* accepted) {
  for (Index c = 0; c < columns; c += lane_count) {
    const Lanes mean = load(y + c) * rule.inverse_mass, magnitude = abs(mean), got = load(out + c);
    const Lanes moved = max(load(reach + c) * rule.inverse_mass - rule.gain * magnitude, rule.t * magnitude);
    const Lanes radius = (moved + rule.g * magnitude + rule.absolute) * slack;
    const Lanes error = abs(got - mean) - half_gap(got, mean, rule.unit, rule.tiny);
    store(y + c, mean);
    accepted[c / lane_count] = bits_of((error <= radius) & (abs(got) < infinity));
  }
}

ATTEST_CLONES
void box(const double* p, const double* d, double* lo, double* hi, Index keys) {
  for (Index j = 0; j < keys; j += lane_count) {
    const Lanes weight = load(p + j), width = min(load(d + j), fill(300));
    store(lo + j, weight * exp(-width));
    store(hi + j, weight * exp(width));
  }
}

// Whether a target lies below the box's largest mean is the sign of one sum: no iteration.
ATTEST_CLONES
std::uint8_t inside_box(const AcceptRule& rule, const double* p, const double* lo, const double* hi, const double* v,
                        Index keys, Index stride, const double* y, const double* out) {
  const Lanes mean = load(y), got = load(out), magnitude = abs(mean);
  Lanes heavy = fill(0);
  for (Index j = 0; j < keys; ++j) heavy += p[j] * abs(load(v + j * stride));
  const Lanes shared = (rule.t * (heavy * rule.inverse_mass) + rule.g * magnitude + rule.absolute) * slack;
  const Lanes side = select(got >= mean, fill(1), fill(-1));
  const Lanes target = side * got - half_gap(got, mean, rule.unit, rule.tiny) - shared;
  Lanes balance = fill(0), size = balance;
  for (Index j = 0; j < keys; ++j) {
    const Lanes away = side * load(v + j * stride) - target;
    const Lanes term = select(away > 0.0, fill(hi[j]), fill(lo[j])) * away;
    balance += term;
    size += abs(term);
  }
  const double rounding = static_cast<double>(keys + 16) * 0x1p-51;
  return bits_of(((balance > rounding * size) | (target <= side * mean)) & (abs(got) < infinity));
}

}  // namespace attest::oracle::products
