#pragma once
// Bodies of Loops, for the files that make it.
#include <cstdint>

#include "oracle/exp.hpp"
#include "oracle/half_gap.hpp"
#include "oracle/loops.hpp"
#include "oracle/score_lane.hpp"

namespace attest::oracle::products {
namespace {

template <class L, int Rows>
ATTEST_LANE_FN void score_rows(const double* q, Index q_stride, const double* kt, Index kt_stride, Index d, Index keys,
                               double* s, Index s_stride) {
  for (Index j = 0; j < keys; j += lane_count) {
    L total[Rows];
    for (int r = 0; r < Rows; ++r) total[r] = fill<L>(0);
    const double* k = kt + j;
    for (Index c = 0; c < d; ++c, k += kt_stride) {
      const L kc = load<L>(k);
      for (int r = 0; r < Rows; ++r) total[r] += q[r * q_stride + c] * kc;
    }
    for (int r = 0; r < Rows; ++r) store(s + r * s_stride + j, total[r]);
  }
}

template <class L, int Rows>
ATTEST_LANE_FN void value_rows(const double* p, const double* m, Index stride, const double* v, Index keys,
                               Index columns, double* y, double* reach, bool add) {
  for (Index c = 0; c < columns; c += lane_count) {
    L mean[Rows], far[Rows];
    for (int r = 0; r < Rows; ++r) {
      mean[r] = add ? load<L>(y + r * columns + c) : fill<L>(0);
      far[r] = add ? load<L>(reach + r * columns + c) : fill<L>(0);
    }
    const double* at = v + c;
    for (Index j = 0; j < keys; ++j, at += columns) {
      const L value = load<L>(at), magnitude = abs(value);
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

template <class L>
void Loops<L>::scores(const double* q, Index q_stride, Index rows, const double* kt, Index kt_stride, Index d,
                      Index keys, double* s, Index s_stride) {
  in_groups<L::per_vector == 2 ? 2 : 4>(
      rows, [&]<int Rows>(Index r) __attribute__((always_inline)) {
        score_rows<L, Rows>(q + r * q_stride, q_stride, kt, kt_stride, d, keys, s + r * s_stride, s_stride);
      });
}

template <class L>
double Loops<L>::largest_absolute_score(const double* q, const double* kt, Index kt_stride, Index d, Index keys) {
  L top = fill<L>(0);
  for (Index j = 0; j < keys; j += lane_count) {
    L total = fill<L>(0);
    for (Index c = 0; c < d; ++c) total += abs(q[c] * load<L>(kt + c * kt_stride + j));
    top = max(top, total);
  }
  return largest(top);
}

template <class L>
SquareExtent Loops<L>::square_sums(const double* a, Index stride, Index rows, Index columns) {
  L top = fill<L>(0), total = top;
  for (Index j = 0; j < columns; j += lane_count) {
    L squares = fill<L>(0);
    for (Index c = 0; c < rows; ++c) {
      const L x = load<L>(a + c * stride + j);
      squares += x * x;
    }
    top = max(top, squares);
    total += squares;
  }
  return SquareExtent{largest(top), sum(total)};
}

template <class L>
Extent Loops<L>::magnitudes(const double* a, Index count) {
  constexpr int chains = 4;  // that no number waits for the one before
  L tops[chains], totals[chains];
  for (int k = 0; k < chains; ++k) tops[k] = totals[k] = fill<L>(0);
  const auto take = [&](int k, Index at) __attribute__((always_inline)) {
    const L x = abs(load<L>(a + at));
    tops[k] = max(tops[k], x);
    totals[k] += x;
  };
  Index n = 0;
  for (; n + chains * lane_count <= count; n += chains * lane_count)
    for (int k = 0; k < chains; ++k) take(k, n + k * lane_count);
  for (; n < count; n += lane_count) take(0, n);
  const L top = max(max(tops[0], tops[1]), max(tops[2], tops[3]));
  return Extent{largest(top), sum((totals[0] + totals[1]) + (totals[2] + totals[3]))};
}

template <class L>
Grid Loops<L>::grid(const double* a, Index count) {
  L lowest = fill<L>(lane_infinity), top = fill<L>(0);
  typename L::Bits below = top == top, above = below;
  for (Index n = 0; n < count; n += lane_count) {
    const L x = load<L>(a + n);
    const typename L::Bits less = x<lane_infinity, more = x> - lane_infinity;
    const L size = zero_unless(less & more, abs(x));
    below &= less;
    above &= more;
    lowest = min(lowest, lowest_bit<L>(size));
    top = max(top, size);
  }
  return Grid{-largest(0.0 - lowest), largest(top), bits_of(below) == 0xff, bits_of(above) == 0xff};
}

template <class L>
double Loops<L>::largest_square_sum(const double* a, Index stride, Index rows, Index columns) {
  double top = 0;
  for (Index r = 0; r < rows; ++r) {
    L squares = fill<L>(0);
    for (Index c = 0; c < columns; c += lane_count) {
      const L x = load<L>(a + r * stride + c);
      squares += x * x;
    }
    const double row = sum(squares);
    if (!(row <= top)) top = row;
  }
  return top;
}

template <class L>
void Loops<L>::round_sums(const RoundRule& rule, const double* a, const double* b, double shift, Index count,
                          double* to) {
  const L least = fill<L>(rule.smallest_normal);
  for (Index c = 0; c < count; c += lane_count) {
    L x = load<L>(a + c);
    if (b != nullptr) x += load<L>(b + c);
    x += fill<L>(shift);
    const L shifter = power_of(max(abs(x), least)) * rule.shifter;
    store(to + c, (x + shifter) - shifter);
  }
}

template <class L>
ScoreSums Loops<L>::finish_scores(const ScoreRule& rule, double* s, double* e, const double* bias, const double* open,
                                  Index count, Index keys) {
  L top = fill<L>(-lane_infinity), n = fill<L>(0);
  for (Index j = 0; j < keys; j += lane_count) {
    auto [z, error] =
        finish_score(rule, load<L>(s + j), bias == nullptr ? bias : bias + j, open == nullptr ? open : open + j);
    if (j + lane_count > count)
      z = select(lane_numbers<L>() < static_cast<double>(count - j), z, fill<L>(-lane_infinity));
    const typename L::Bits attended = z > -lane_infinity;
    error = zero_unless(attended, error + rule.u_softmax * abs(z));
    n += zero_unless(attended, fill<L>(1));
    top = max(top, z);
    store(s + j, z);
    store(e + j, error);
  }
  return ScoreSums{largest(top), sum(n)};
}

template <class L>
double Loops<L>::largest_bias_above(const double* z, const double* bias, double threshold, Index keys) {
  L top = fill<L>(0);
  for (Index j = 0; j < keys; j += lane_count)
    top = max(top, zero_unless(load<L>(z + j) >= threshold, abs(load<L>(bias + j))));
  return largest(top);
}

template <class L>
Index Loops<L>::count_from(const double* z, double threshold, Index keys) {
  L count = fill<L>(0);
  for (Index j = 0; j < keys; j += lane_count) count += zero_unless(load<L>(z + j) >= threshold, fill<L>(1));
  return static_cast<Index>(sum(count));
}

template <class L>
WeightSums Loops<L>::weigh(const WeightRule& rule, const double* z, double* p, double* e, double* m, Index keys) {
  L mass = fill<L>(0), gain = mass;
  const double top = rule.z_max < 0 ? -rule.z_max : rule.z_max;
  const double constant = rule.constant + rule.u_softmax * (rule.a2 * rule.shift + rule.a3 * rule.lazy);
  const double u1 = rule.u_softmax * rule.a1, u2 = rule.u_softmax * rule.a2, u3 = rule.u_softmax * rule.a3;
  for (Index j = 0; j < keys; j += lane_count) {
    const L score = load<L>(z + j), error = load<L>(e + j);
    const typename L::Bits attended = score > -lane_infinity;
    const L magnitude = zero_unless(attended, abs(score)), below = zero_unless(attended, rule.z_max - score);
    const L weight = zero_unless(attended, exp(score - rule.z_max));
    const L d = error + u1 * (magnitude + error) + u2 * max(magnitude, fill<L>(top)) + u3 * below + constant;
    const L cut = min(d, fill<L>(rule.cap));
    const L moved = rule.gain * weight * (cut * (1.0 - 0.5 * cut));  // 1 - e^-d >= d - d^2/2
    store(p + j, weight);
    store(e + j, d);
    store(m + j, rule.t * weight + moved);
    mass += weight;
    gain += moved;
  }
  return WeightSums{sum(mass), sum(gain)};
}

template <class L>
void Loops<L>::values(const double* p, const double* m, Index stride, Index rows, const double* v, Index keys,
                      Index columns, double* y, double* reach, bool add) {
  in_groups<L::per_vector / 2>(
      rows, [&]<int Rows>(Index r) __attribute__((always_inline)) {
        value_rows<L, Rows>(p + r * stride, m + r * stride, stride, v, keys, columns, y + r * columns,
                            reach + r * columns, add);
      });
}

template <class L>
void Loops<L>::accept(const AcceptRule& rule, double* y, const double* reach, const double* out, Index columns,
                      std::uint8_t* accepted) {
  for (Index c = 0; c < columns; c += lane_count) {
    const L mean = load<L>(y + c) * rule.inverse_mass, magnitude = abs(mean), got = load<L>(out + c);
    const L moved = max(load<L>(reach + c) * rule.inverse_mass - rule.gain * magnitude, rule.t * magnitude);
    const L radius = (moved + rule.g * magnitude + rule.absolute) * slack;
    const L error = abs(got - mean) - half_gap(got, mean, rule.unit, rule.tiny);
    store(y + c, mean);
    accepted[c / lane_count] = bits_of((error <= radius) & (abs(got) < lane_infinity));
  }
}

template <class L>
void Loops<L>::box(const double* p, const double* d, double* lo, double* hi, Index keys) {
  for (Index j = 0; j < keys; j += lane_count) {
    const L weight = load<L>(p + j), width = min(load<L>(d + j), fill<L>(300));
    store(lo + j, weight * exp(-1.0 * width));
    store(hi + j, weight * exp(width));
  }
}

template <class L>
std::uint8_t Loops<L>::inside_box(const AcceptRule& rule, const double* p, const double* lo, const double* hi,
                                  const double* v, Index keys, Index stride, const double* y, const double* out) {
  const L mean = load<L>(y), got = load<L>(out), magnitude = abs(mean);
  L heavy = fill<L>(0);
  for (Index j = 0; j < keys; ++j) heavy += p[j] * abs(load<L>(v + j * stride));
  const L shared = (rule.t * (heavy * rule.inverse_mass) + rule.g * magnitude + rule.absolute) * slack;
  const L side = select(got >= mean, fill<L>(1), fill<L>(-1));
  const L target = side * got - half_gap(got, mean, rule.unit, rule.tiny) - shared;
  L balance = fill<L>(0), size = balance;
  for (Index j = 0; j < keys; ++j) {
    const L away = side * load<L>(v + j * stride) - target;
    const L term = select(away > 0.0, fill<L>(hi[j]), fill<L>(lo[j])) * away;
    balance += term;
    size += abs(term);
  }
  const double rounding = static_cast<double>(keys + 16) * 0x1p-51;
  return bits_of(((balance > rounding * size) | (target <= side * mean)) & (abs(got) < lane_infinity));
}

template <class L>
std::uint8_t Loops<L>::inside_means(const MeanRule& rule, const double* p, const double* lo, const double* hi,
                                    const double* v, Index keys, Index stride, const double* out) {
  L mean = fill<L>(0);
  for (Index j = 0; j < keys; ++j) mean += p[j] * load<L>(v + j * stride);
  const L got = load<L>(out), side = select(got >= mean, fill<L>(1), fill<L>(-1));
  const L target = side * got - half_gap(got, mean, rule.unit, rule.tiny);
  // A mean that is heavy beyond the target lies beyond it.
  L balance = fill<L>(0), size = balance;
  for (Index j = 0; j < keys; ++j) {
    const L away = side * load<L>(v + j * stride) - target;
    const L weight = select(away > 0.0, fill<L>(hi[j]), fill<L>(lo[j]));
    balance += weight * away;
    size += weight * (abs(away) + abs(target));
  }
  return bits_of(((balance >= MeanRule::margin * size) | (target <= side * mean)) & (abs(got) < lane_infinity));
}

}  // namespace attest::oracle::products
