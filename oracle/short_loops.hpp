#pragma once
// Bodies of Loops, for the files that make it: eight rows at a time, a row in a lane. The sums of a row are added in
// the order in which lanes of keys, or of columns, are folded.
#include <cstdint>

#include "oracle/exp.hpp"
#include "oracle/half_gap.hpp"
#include "oracle/loops.hpp"
#include "oracle/score_lane.hpp"

namespace attest::oracle::products {
namespace {

// sum() of `count` numbers of each row, eight a vector.
template <class L>
ATTEST_LANE_FN L folded_sum(const L* x, Index count) {
  L lane[lane_count];
  for (Index n = 0; n < lane_count; ++n) lane[n] = n < count ? x[n] : fill<L>(0);
  for (Index n = lane_count; n < count; ++n) lane[n % lane_count] += x[n];
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

template <class L>
ATTEST_LANE_FN void keep_largest(double& top, const typename L::Bits& where, const L& x) {
  const double here = largest(zero_unless(where, x));
  if (here > top) top = here;
}

}  // namespace

template <class L>
ShortTops Loops<L>::short_scores(const ShortScoreRule& rule, const ShortLanes& rows) {
  const Index step = rows.stride;
  ShortTops tops{};
  for (Index r = 0; r < rows.rows; r += lane_count) {
    L q_square = fill<L>(0);
    for (Index c = 0; c < rows.d; ++c) {
      const L x = load<L>(rows.q + c * step + r);
      q_square += x * x;
    }
    L k_square = fill<L>(0), k_total = k_square, z_max = fill<L>(-lane_infinity), n = k_square;
    typename L::Bits number = k_total == L(0);
    for (Index j = 0; j < rows.keys; ++j) {
      L s = fill<L>(0), squares = s;
      for (Index c = 0; c < rows.d; ++c) {
        const L x = load<L>(rows.k + (j * rows.d + c) * step + r);
        s += load<L>(rows.q + c * step + r) * x;
        squares += x * x;
      }
      k_square = max(k_square, squares);
      k_total += squares;
      const double* const bias = rows.bias == nullptr ? nullptr : rows.bias + j * step + r;
      if (bias != nullptr) {
        const L m = load<L>(bias);
        number &= m == m;
      }
      const auto [z, error] =
          finish_score(rule.score, s, bias, rows.open == nullptr ? nullptr : rows.open + j * step + r);
      const typename L::Bits attended = z > -lane_infinity;
      n += zero_unless(attended, fill<L>(1));
      z_max = max(z_max, z);
      store(rows.z + j * step + r, z);
      store(rows.e + j * step + r, zero_unless(attended, error + rule.score.u_softmax * abs(z)));
    }
    L v_total = fill<L>(0);
    for (Index at = 0; at < rows.keys * rows.dv; ++at) v_total += abs(load<L>(rows.v + at * step + r));
    const typename L::Bits sound = number & (q_square < 1e300) & (k_total < 1e300) & (v_total < 1e200);
    rows.sound[r / lane_count] = bits_of(sound);
    store(rows.n + r, n);
    store(rows.z_max + r, z_max);
    const typename L::Bits asked = sound & (n > L(0)) & (abs(z_max) < lane_infinity);
    const typename L::Bits norms_asked = rows.bias == nullptr ? asked : sound;  // for rows that the bias closes
    keep_largest<L>(tops.q_square, norms_asked, q_square);
    keep_largest<L>(tops.k_square, norms_asked, k_square);
    keep_largest<L>(tops.z, asked, abs(z_max));
    if (rows.bias != nullptr) {
      L top = fill<L>(0);
      for (Index j = 0; j < rows.keys; ++j)
        top = max(top, zero_unless(load<L>(rows.z + j * step + r) >= z_max - rule.bias_within,
                                   abs(load<L>(rows.bias + j * step + r))));
      keep_largest<L>(tops.bias, asked, top);
    }
  }
  return tops;
}

template <class L>
void Loops<L>::judge_short(const ShortRule& rule, const ShortLanes& rows) {
  using Bits = typename L::Bits;
  const Index step = rows.stride, keys = rows.keys;
  const double u1 = rule.u_softmax * rule.a1, u2 = rule.u_softmax * rule.a2, u3 = rule.u_softmax * rule.a3;
  for (Index r = 0; r < rows.rows; r += lane_count) {
    const L n = load<L>(rows.n + r), z_max = load<L>(rows.z_max + r), size = abs(z_max);
    const bool alike = bits_of(n == L(rows.n[r])) == 0xff;
    // Returns the entries of `table` for the rows' numbers of keys.
    const auto by_count = [&](const ShortRule::Table& table) __attribute__((always_inline)) {
      const double* const at = table.data();
      if (alike) return fill<L>(at[static_cast<Index>(rows.n[r])]);
      double each[lane_count];
      for (Index lane = 0; lane < lane_count; ++lane) each[lane] = at[static_cast<Index>(rows.n[r + lane])];
      return load<L>(each);
    };
    const Bits settled = (n > L(0)) & (size < lane_infinity) & (by_count(rule.bounded) > L(0));
    unsigned left = bits_of(settled) & rows.sound[r / lane_count];
    rows.settled[r / lane_count] = 0;
    if (left == 0) continue;

    const L constant = by_count(rule.constant), cap = by_count(rule.cap), damping = by_count(rule.damping),
            t = by_count(rule.t), g = by_count(rule.g);
    L p[short_keys], reach[short_keys];
    L gain = fill<L>(0), heaviest = gain;
    for (Index j = 0; j < keys; ++j) {
      const L z = load<L>(rows.z + j * step + r), error = load<L>(rows.e + j * step + r);
      const Bits attended = z > -lane_infinity;
      const L magnitude = zero_unless(attended, abs(z)), below = zero_unless(attended, z_max - z);
      p[j] = zero_unless(attended, exp(z - z_max));
      const L d = error + u1 * (magnitude + error) + u2 * max(magnitude, size) + u3 * below + constant;
      const L cut = min(d, cap), more = damping * p[j] * (cut * (1.0 - 0.5 * cut));  // 1 - e^-d >= d - d^2/2
      reach[j] = t * p[j] + more;
      gain += more;
      heaviest = max(heaviest, p[j]);
    }
    const L mass = folded_sum<L>(p, keys), inverse = fill<L>(1) / mass;
    if (rule.spared > 0) {
      Bits open = n > L(0);  // no key has taken it yet
      for (Index j = 0; j < keys; ++j) {
        const Bits here = open & (p[j] == heaviest);
        reach[j] = reach[j] - zero_unless(here, fill<L>(rule.spared));
        open = open & ~here;
      }
    }
    store(rows.mass + r, mass);
    store(rows.gain + r, gain / damping * inverse);
    L absolute = max(by_count(rule.absolute_before), rule.eta_after * (4.0 + by_count(rule.absolute_after) * inverse));
    absolute = absolute - zero_unless(~(absolute > 0x1p-900), (n * inverse + 2.0) * 0x1p-1074);
    const L of_gain = gain * inverse, kept = t - rule.spared;

    for (Index c = 0; c < rows.dv; ++c) {
      L sum = fill<L>(0), far = sum;
      for (Index j = 0; j < keys; ++j) {
        const L v = load<L>(rows.v + (j * rows.dv + c) * step + r);
        sum += p[j] * v;
        far += reach[j] * abs(v);
      }
      const L mean = sum * inverse, magnitude = abs(mean), got = load<L>(rows.got + c * step + r);
      const Bits known = abs(got) < lane_infinity;
      const L radius = (max(far * inverse - of_gain * magnitude, kept * magnitude) + g * magnitude + absolute) * slack;
      const Bits holds = (abs(got - mean) - half_gap(got, mean, rule.unit, rule.tiny) <= radius) & known;
      left &= bits_of(holds);
      if (left == 0) break;
    }
    rows.settled[r / lane_count] = static_cast<std::uint8_t>(left);
  }
}

}  // namespace attest::oracle::products
