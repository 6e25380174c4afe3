#pragma once
// Bodies of Loops, for the files that make it: eight rows at a time, a row a lane. The sums of a row are added in the order in which
// lanes of keys, or of columns, are folded.
#include <cstdint>

#include "oracle/exp.hpp"
#include "oracle/half_gap.hpp"
#include "oracle/lane_root.hpp"
#include "oracle/loops.hpp"
#include "oracle/score_lane.hpp"
#include "oracle/spread_loops.hpp"

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

// The power of two whose product with x lies in [1, 2), as scale_for() has it.
template <class L>
ATTEST_LANE_FN L value_scale(const L& top) {
  using Bits = typename L::Bits;
  const L scale = bits_as<L>(Bits(std::int64_t{2046} << 52) - bits_as<Bits>(max(power_of(top), L(0x1p-1022))));
  return select(top > L(0), scale, L(1));
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
    L q_square = fill<L>(0), q_element = q_square;
    for (Index c = 0; c < rows.d; ++c) {
      const L x = load<L>(rows.q + c * step + r);
      q_square += x * x;
      q_element = max(q_element, abs(x));
    }
    L k_square = fill<L>(0), k_element2 = k_square, k_total = k_square, z_max = fill<L>(-lane_infinity), n = k_square;
    typename L::Bits number = k_total == L(0);
    for (Index j = 0; j < rows.keys; ++j) {
      L s = fill<L>(0), squares = s;
      for (Index c = 0; c < rows.d; ++c) {
        const L x = load<L>(rows.k + (j * rows.d + c) * step + r), square = x * x;
        s += load<L>(rows.q + c * step + r) * x;
        squares += square;
        k_element2 = max(k_element2, square);
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
    L v_top = fill<L>(0), v_total = v_top;
    for (Index at = 0; at < rows.keys * rows.dv; ++at) {
      const L x = abs(load<L>(rows.v + at * step + r));
      v_top = max(v_top, x);
      v_total += x;
    }
    const typename L::Bits sound = number & (q_square < 1e300) & (k_total < 1e300) & (v_total < 1e200);
    rows.sound[r / lane_count] = bits_of(sound);
    store(rows.n + r, n);
    store(rows.z_max + r, z_max);
    store(rows.v_top + r, v_top);
    const typename L::Bits asked = sound & (n > L(0)) & (abs(z_max) < lane_infinity);
    const typename L::Bits norms_asked = rows.bias == nullptr ? asked : sound;  // for rows that the bias closes
    keep_largest<L>(tops.q_square, norms_asked, q_square);
    keep_largest<L>(tops.q_element, norms_asked, q_element);
    keep_largest<L>(tops.k_square, norms_asked, k_square);
    keep_largest<L>(tops.k_element2, norms_asked, k_element2);
    keep_largest<L>(tops.z, asked, abs(z_max));
    if (rows.bias != nullptr) {
      L top = fill<L>(0);
      for (Index j = 0; j < rows.keys; ++j)
        top = max(top, zero_unless(load<L>(rows.z + j * step + r) >= z_max - rule.bias_within,
                                   abs(load<L>(rows.bias + j * step + r))));
      keep_largest<L>(tops.bias, asked, top);
    }
    if (!rule.spreads) continue;
    const VarianceRule& vary = rule.variance;
    const L of_shift = rule.a2 * z_max;
    L constant = vary.constant + of_shift * of_shift / fill<L>(3);
    if (rule.eta_scale > 0) {
      const L of_keys = rule.eta_scale * root<L>(q_square) * slack / fill<L>(rule.u_softmax);
      constant += of_keys * of_keys;
    }
    L top = fill<L>(0);
    for (Index j = 0; j < rows.keys; ++j) {
      const L z = load<L>(rows.z + j * step + r),
              m = rows.bias == nullptr ? fill<L>(0) : load<L>(rows.bias + j * step + r);
      const L s = z - m, below = z_max - z;
      const L sum = constant + vary.per_s * (s * s) + (vary.per_z * (z * z) + vary.per_below * (below * below)) +
                    vary.per_bias * (m * m);
      store(rows.variance + j * step + r, widen(narrow(zero_unless(z > -lane_infinity, sum))));
      top = max(top, zero_unless(z >= z_max - ln_least_weight, sum));
    }
    keep_largest<L>(tops.variance, asked, top);
  }
  return tops;
}

template <class L>
void Loops<L>::judge_short(const ShortRule& rule, const ShortLanes& rows) {
  using Bits = typename L::Bits;
  using Floats = typename L::Floats;
  const Index step = rows.stride, keys = rows.keys;
  const double u1 = rule.u_softmax * rule.a1, u2 = rule.u_softmax * rule.a2, u3 = rule.u_softmax * rule.a3;
  const double gap_tiny = rule.gap > 0 ? rule.half_subnormal : 0, limit = rule.limit * rule.limit;
  for (Index r = 0; r < rows.rows; r += lane_count) {
    const L n = load<L>(rows.n + r), z_max = load<L>(rows.z_max + r), size = abs(z_max);
    const bool alike = bits_of(n == L(rows.n[r])) == 0xff;
    // What `table` says of the rows' numbers of keys.
    const auto by_count = [&](const ShortRule::Table& table) __attribute__((always_inline)) {
      const double* const at = table.data();
      if (alike) return fill<L>(at[static_cast<Index>(rows.n[r])]);
      double each[lane_count];
      for (Index lane = 0; lane < lane_count; ++lane) each[lane] = at[static_cast<Index>(rows.n[r + lane])];
      return load<L>(each);
    };
    Bits settled = (n > L(0)) & (size < lane_infinity) & (by_count(rule.bounded) > L(0));
    unsigned left = bits_of(settled) & rows.sound[r / lane_count];
    rows.settled[r / lane_count] = 0;
    if (left == 0) continue;

    const L constant = by_count(rule.constant), cap = by_count(rule.cap), damping = by_count(rule.damping),
            t = by_count(rule.t), g = by_count(rule.g), root_n = by_count(rule.root_n);
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

    // Of the spreads.
    Floats w[short_keys], w2[short_keys];
    L scale = fill<L>(1), scaled_absolute = scale, per_mean2 = scale, second_weight = scale, mean_weight = scale,
      underflow = scale, variance_unit = scale, floor = scale, epsilon = scale, weight_sum = scale;
    if (rule.spreads) {
      const L shift_error = 2 * rule.u_softmax * (2.0 * size + 1.0);
      const Bits exact_shift = shift_error < 0.01;
      const L every = by_count(rule.every), rounded = select(exact_shift, by_count(rule.rounded), every);
      const L every2 = every * rule.inverse_unit2, rounded2 = rounded * rule.inverse_unit2,
              lightest = n * rule.twice_eta_weights;
      L moved[short_keys], squared[short_keys];
      for (Index j = 0; j < keys; ++j) {
        squared[j] = zero_unless(p[j] > least_weight, p[j] * p[j]);
        moved[j] = squared[j] * load<L>(rows.variance + j * step + r);
        const L carried = squared[j] * select(p[j] >= lightest, rounded2, every2);
        w[j] = narrow(moved[j]);
        w2[j] = narrow(moved[j] + carried);
      }
      weight_sum = folded_sum<L>(moved, keys);
      const L p2 = folded_sum<L>(squared, keys);
      store(rows.weights + r, mass * mass / p2);
      settled = settled & exact_shift & (p2 > L(0)) & (weight_sum < 1e30) & (size + 1.0 >= by_count(rule.e_most)) &
                (rule.shares_unit * size <= rule.shares_limit);
      left &= bits_of(settled);
      if (left == 0) continue;
      per_mean2 = (by_count(rule.per_mean2) + rule.of_sum * (n + 1.0) * (p2 * inverse * inverse * (1.0 / 6)) +
                   rule.of_divisions) *
                  slack;
      const L lost = 2.0 * root_n * (rule.underflow_after * inverse + rule.underflow_before);
      floor = lost + 0x1p-62 * root_n;
      epsilon = 2.0 * (n + 16.0) * 0x1p-24;
      underflow = 0x1p-146 * (weight_sum + rounded * rule.inverse_unit2 * p2 + n);
      scale = value_scale<L>(load<L>(rows.v_top + r));
      scaled_absolute = by_count(rule.absolute) * scale;
      second_weight = 1.0 - 2.0 * epsilon;
      mean_weight = weight_sum * (1.0 - epsilon);
      variance_unit = rule.unit2 * inverse * inverse;
    }
    L squares[lane_count], finite = fill<L>(0), largest_square = finite;
    for (L& lane : squares) lane = fill<L>(0);
    for (Index c = 0; c < rows.dv; ++c) {
      L sum = fill<L>(0), far = sum;
      Floats one{}, two{};
      for (Index j = 0; j < keys; ++j) {
        const L v = load<L>(rows.v + (j * rows.dv + c) * step + r);
        sum += p[j] * v;
        far += reach[j] * abs(v);
        if (!rule.spreads) continue;
        const L scaled = v * scale;
        one += w[j] * narrow(scaled);
        two += w2[j] * narrow(scaled * scaled);
      }
      const L mean = sum * inverse, magnitude = abs(mean), got = load<L>(rows.got + c * step + r);
      const Bits known = abs(got) < lane_infinity;
      const L radius = (max(far * inverse - of_gain * magnitude, kept * magnitude) + g * magnitude + absolute) * slack;
      Bits holds = (abs(got - mean) - half_gap(got, mean, rule.unit, rule.tiny) <= radius) & known;
      if (rule.spreads) {
        const L scaled = mean * scale, mean2 = scaled * scaled, m1 = widen(one), m2 = widen(two);
        const L away = m2 * second_weight - 2.0 * scaled * m1 + mean2 * mean_weight - underflow;
        const L s2 = max(away, fill<L>(0)) * variance_unit + per_mean2 * mean2 + scaled_absolute * scaled_absolute;
        const L error = abs(got - mean) * scale;
        const L beyond = max(error - half_gap(got, mean, rule.gap, gap_tiny) * scale, fill<L>(0));
        const L half_ulp = max(abs(scaled) * rule.unit, rule.half_subnormal * scale);
        const L variance = s2 + floor * floor + half_ulp * half_ulp * (1.0 / 3);
        // What float32 loses where values differ by little beside their mean.
        const L lost = (epsilon * (2.0 * m2 + weight_sum * mean2) + underflow) * variance_unit;
        const Bits counted = known & (lost <= 0.5 * variance);
        squares[c % lane_count] += zero_unless(counted & (error > 0.0), error * error / variance);
        finite += zero_unless(counted, fill<L>(1));
        const L beyond2 = beyond * beyond;
        holds = holds & (beyond2 <= limit * s2);
        largest_square = max(largest_square, zero_unless(beyond > 0.0, beyond2 / s2));
      }
      left &= bits_of(holds);
      if (left == 0) break;
    }
    rows.settled[r / lane_count] = static_cast<std::uint8_t>(left);
    if (!rule.spreads || left == 0) continue;
    store(rows.squares + r, folded_sum<L>(squares, lane_count));
    store(rows.finite + r, finite);
    store(rows.largest + r, largest_square);
  }
}

}  // namespace attest::oracle::products
