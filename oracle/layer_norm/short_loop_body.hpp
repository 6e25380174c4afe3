#pragma once
// Body of RowLoops::accept_short, for the files that make it: eight rows of few elements at a time, a row in a lane.
#include "oracle/half_gap.hpp"
#include "oracle/lane_root.hpp"
#include "oracle/layer_norm/lane_sums.hpp"
#include "oracle/layer_norm/quick_loops_body.hpp"

namespace attest::oracle::layer_norm {

inline constexpr double short_up = 1 + 1e-6, short_bit = 0x1p-53;

// Element j of eight rows.
template <class L>
ATTEST_LANE_FN L column_of(const double* rows, Index n, Index j) {
  double lanes[lane_count];
  for (int lane = 0; lane < lane_count; ++lane) lanes[lane] = rows[lane * n + j];
  return load<L>(lanes);
}

// Section 1 of eight rows, as QuickRow::refer() has it of one.
template <class L>
struct ShortReference {
  L magnitudes = L(0), largest = L(0), grid = L(lane_infinity);
  L mean = L(0), mean_error = L(0), off_mean = L(0);  // off_mean adds the second double of the mean
  L variance, variance_error, whole, scale, inverse;  // `whole` adds epsilon; `inverse` is the square of the scale
  L mean_rest = L(0), scale_rest = L(0);              // the second of two doubles
};

// x / n, and what the quotient leaves of x + rest: of a small integer n products with halves are exact.
template <class L>
ATTEST_LANE_FN L quotient(const L& x, const L& rest, double n, L& left) {
  const L q = x / n;
  const L high = bits_as<L>(bits_as<typename L::Bits>(q) & static_cast<std::int64_t>(0xfffffffff8000000)),
          low = q - high;
  left = (((x - high * n) - low * n) + rest) * (1 / n);
  return q;
}

// Computes the reference in two doubles, where out is float64.
template <class L>
ATTEST_LANE_FN void refer_precisely(const ShortRule& rule, const L* x, ShortReference<L>& r) {
  const double n = static_cast<double>(rule.n), of_sum = (n < 4 ? 4 : n) * short_bit, of_squares = 16 * n * short_bit;
  L& mean_rest = r.mean_rest;
  if (!rule.rms) {
    TwoSums<L> total;
    for (Index j = 0; j < rule.n; ++j) total.add(x[j]);
    const L sum = total.sum + total.rest, rest = total.rest - (sum - total.sum);
    r.mean = quotient<L>(sum, rest, n, mean_rest);
    r.mean_error = abs(mean_rest) * 0x1p-50 + r.magnitudes * (of_sum * of_sum / n);
    r.off_mean = r.mean_error + abs(mean_rest);
  }
  TwoSums<L> squares;
  if (rule.rms)
    for (Index j = 0; j < rule.n; ++j) squares.add_square(x[j]);
  else
    for (Index j = 0; j < rule.n; ++j) squares.add_square(x[j], r.mean, mean_rest);
  const L sum = squares.sum + squares.rest, rest = squares.rest - (sum - squares.sum);
  L variance_rest;
  r.variance = quotient<L>(sum, rest, n, variance_rest);
  const L beside = abs(mean_rest);
  r.variance_error = r.variance * (of_squares * of_squares + 0x1p-61) + 0x1p-1000 +
                     beside * (root<L>(r.variance) * 2 + beside) * (4 * short_bit);
  r.whole = r.variance + rule.epsilon;
  const L part = r.whole - r.variance,
          of_whole = ((r.variance - (r.whole - part)) + (L(rule.epsilon) - part)) + variance_rest;
  // One step of Newton: 1 - whole scale^2 exactly.
  const L first = L(1) / root<L>(r.whole);
  L square_rest, product_rest;
  const L square = exact_product<L>(first, first, square_rest),
          product = exact_product<L>(square, r.whole, product_rest);
  const L step = first * (((L(1) - product) - product_rest) - (square_rest * r.whole + square * of_whole)) * 0.5;
  r.scale = first + step;
  r.scale_rest = step - (r.scale - first);
}

template <class L>
ATTEST_LANE_FN ShortReference<L> refer_short(const ShortRule& rule, const L* x) {
  const double n = static_cast<double>(rule.n), reference = (n + 32) * 0x1p-52;
  ShortReference<L> r;
  L total = L(0), squares = L(0);
  for (Index j = 0; j < rule.n; ++j) {
    const L size = abs(x[j]);
    r.magnitudes += size;
    r.largest = max(r.largest, size);
    if (!rule.precise) {
      const L z = rule.rms ? x[j] : x[j] - x[0];
      total += z;
      squares += z * z;
    }
    if (rule.of_mean) r.grid = min(r.grid, lowest_bit<L>(size));
  }
  if (rule.precise) {
    refer_precisely<L>(rule, x, r);
  } else {
    const L about = squares * (1 / n), offset = rule.rms ? L(0) : total * (1 / n);
    if (!rule.rms) {
      r.mean = x[0] + offset;
      r.mean_error = r.off_mean = abs(r.mean) * 0x1p-50 + root<L>(about) * reference;
    }
    r.variance = max(L(0), about - offset * offset);
    r.variance_error = about * (5 * reference);
    r.whole = r.variance + rule.epsilon;
    r.scale = L(1) / root<L>(r.whole);
  }
  r.inverse = r.scale * r.scale;
  return r;
}

// Returns at least D_n of section 3, for numbers that are all alike.
template <class L>
ATTEST_LANE_FN L least_of_welford(const ShortRule& rule, const L& magnitudes, const L& deviation) {
  const double n = static_cast<double>(rule.n), weighted = rule.weighted ? 5 : 1;
  const L unit = magnitudes * (rule.u * rule.growing / n);
  const L constant = unit * ((weighted - 1) * rule.merges) + deviation * (rule.four * (1 + rule.merges)) +
                     rule.eta * (1 + rule.merges);
  const double steps = (n - 1) / 2 < rule.additions ? (n - 1) / 2 : rule.additions;
  const L last = (unit * steps + constant) * slack;
  return rule.weighted ? last : min(last, deviation * (rule.hull_growing * slack));
}

// Returns a lower bound of the loss of a sum of |x|: the k largest come to no less than the largest and k - 1 equal
// ones.
template <class L>
ATTEST_LANE_FN L least_lost(const ShortRule& rule, const ShortReference<L>& r) {
  const L exact = r.grid * rule.exact, each = (r.magnitudes - r.largest) * (slack / static_cast<double>(rule.n - 1));
  L node = r.largest * slack, comb = L(0);
  for (Index k = 2; k <= rule.n; ++k) {
    node += each;
    const L here = min(node * slack, L(rule.overflow));
    comb += zero_unless(here > exact, power_of(here));
  }
  return zero_unless(min(r.magnitudes, L(rule.overflow)) > exact, min(comb, r.magnitudes * rule.additions)) *
         (rule.u * slack);
}

// Tells whether no element of a row of RMSNorm or of two passes is undetermined, by the largest errors of its
// statistics.
template <class L>
ATTEST_LANE_FN typename L::Bits surely_determined(const ShortRule& rule, const ShortReference<L>& r) {
  const double n = static_cast<double>(rule.n), cv = rule.cv * (short_up * short_up),
               av = (2 + 2 * cv) * rule.eta * short_up;
  const L v = (r.variance + r.variance_error) * short_up;
  const L dm = rule.rms ? L(0)
                        : ((r.magnitudes * (rule.most_additions * short_up)) * rule.mean_factor +
                           (abs(r.mean) + r.mean_error) * rule.count + rule.eta) *
                              short_up;
  const L below = (v * cv + av) * short_up, above = (v * cv + dm * dm * (1 + cv) + av) * short_up;
  const L difference = (r.largest + (abs(r.mean) + r.mean_error) + dm) * ((1 + 2 * rule.statistics_u) * short_up);
  const L lost = max((v + above) * n, rule.rms ? L(0) : difference) * short_up;
  const L above_zero = max(L(0), r.variance * slack - r.variance_error) - below * short_up + rule.epsilon_lo * slack;
  return (lost < L(rule.overflow)) & (lost < L(1e290)) & (v + above + rule.epsilon_hi < L(rule.overflow)) &
         (above_zero > L(0)) & (r.whole > L(0x1p-900));
}

// A radius of t, as AcceptRowRule has it.
template <class L>
struct ShortRadius {
  L constant[2], proportional[2];
  L constant_in_two[2], proportional_in_two[2];  // where out is in f64: beside a reference in two doubles
};

// Returns the radius for one error delta of the mean, or for the whole box; QuickRow::make_rule() derives it.
template <class L>
ATTEST_LANE_FN ShortRadius<L> radius_of(const ShortRule& rule, const ShortReference<L>& r) {
  const double kept = 1 - rule.relative;
  const L v = max(L(0), r.variance - r.variance_error) * slack;
  const L least_mean = max(L(0), abs(r.mean) - r.mean_error);
  L dm = L(0);
  if (rule.of_mean) {
    dm = rule.welford ? least_of_welford<L>(rule, r.magnitudes, root<L>(v))
                      : least_lost<L>(rule, r) * rule.mean_factor + least_mean * rule.count + rule.eta;
    dm = dm * slack;
  }
  const L magnitude = least_mean * r.scale;
  const L of_magnitude = zero_unless(magnitude > L(1), magnitude * rule.of_magnitude);
  const L of_small = zero_unless(magnitude <= L(1), L(rule.of_magnitude));
  const double of_rounding = rule.own_roundings * short_bit;
  const L own = r.variance_error * r.inverse * short_up + of_rounding;
  ShortRadius<L> radius;
  const auto put = [&](int line, const L& delta, const L& minus_q, const L& q) __attribute__((always_inline)) {
    const L stretch = min(minus_q * 0.5, q * 0.5 * (L(1) - q));
    const L reach = (delta + rule.error) * r.scale * (L(1) - q * 0.5) * kept;
    L least = (reach + rule.normalise_eta + of_magnitude) * (rule.late * slack);
    L own_mean = r.off_mean * r.scale * short_up;
    if (rule.precise) {  // among subnormal doubles `slack` takes nothing off
      least = max(L(0), least - 0x1p-1070);
      own_mean = own_mean + zero_unless(r.off_mean > L(0), L(0x1p-1072));
      radius.constant_in_two[line] =
          least - ((r.mean_error + abs(r.mean_rest) * (4 * short_bit)) * r.scale * short_up + 0x1p-1070);
    }
    radius.constant[line] = least - own_mean;
    const L by = (stretch * kept + (rule.relative + rule.of_reach) + of_small) * rule.late;
    radius.proportional[line] = by - abs(by) * 1e-6 - own;
    radius.proportional_in_two[line] = radius.proportional[line] + (of_rounding - rule.own_in_two);
  };
  if (!rule.joint) {
    const L off = (v * rule.cv + rule.av) * slack;
    put(0, dm, (off + rule.epsilon_below) * r.inverse * slack, (off + rule.epsilon_above) * r.inverse * slack);
    radius.constant[1] = radius.constant[0];
    radius.proportional[1] = radius.proportional[0];
    radius.constant_in_two[1] = radius.constant_in_two[0];
    radius.proportional_in_two[1] = radius.proportional_in_two[0];
    return radius;
  }
  const auto of_delta = [&](int line, const L& delta) __attribute__((always_inline)) {
    const L apart = delta * delta, around = v + rule.gain;
    const L minus_q =
        ((around * rule.cv + (rule.epsilon_below + rule.av)) * slack - apart * ((1 - rule.cv) * short_up)) * r.inverse;
    const L q = ((around + apart) * rule.cv + (rule.epsilon_above + rule.av) + apart) * r.inverse * slack;
    put(line, delta, minus_q, q);
  };
  of_delta(0, min(dm, root<L>(r.whole) * __builtin_sqrt(rule.cv / 2)));
  of_delta(1, dm);
  return radius;
}

template <class L>
void RowLoops<L>::accept_short(const ShortRule& rule, const double* x, const double* got, Index rows,
                               std::uint8_t* accepted, std::uint8_t* narrow) {
  const double half = rule.u_out * slack, least_half = rule.eta_out * slack;
  const L finite = L(largest_finite(Format::f64)), largest_out = L(rule.largest_out);
  L here[ShortRule::longest];
  for (Index r = 0; r < rows; r += lane_count) {
    for (Index j = 0; j < rule.n; ++j) here[j] = column_of<L>(x + r * rule.n, rule.n, j);
    const ShortReference<L> row = refer_short<L>(rule, here);
    const L scaled = row.largest * row.scale;
    const L much = rule.one_pass_like ? max(scaled, scaled * scaled * 4) : scaled;
    auto known = (row.whole > L(0x1p-100)) & (row.whole < L(1e290)) & (row.largest < L(rule.largest)) &
                 (much * rule.steps < L(little));
    auto held = row.largest < L(0x1p400);
    if (rule.precise) held = held & ((row.largest > L(0x1p-900)) | (row.largest == L(0)));
    known = known & held;
    narrow[r / lane_count] = bits_of(known);
    if (rule.bounds && narrow[r / lane_count] != 0xff) {
      known = known | (surely_determined<L>(rule, row) & held);
    }
    unsigned left = bits_of(known);
    const ShortRadius<L> radius = radius_of<L>(rule, row);
    for (Index j = 0; j < rule.n && left != 0; ++j) {
      const double g = rule.gamma[j], b = rule.beta[j];
      const L d = here[j] - row.mean, p = d * row.scale * g, y = p + b, size = L(g < 0 ? -g : g),
              out = column_of<L>(got + r * rule.n, rule.n, j), off = abs(out - y);
      const L of_t = max(radius.constant[0] * size + abs(p) * radius.proportional[0],
                         radius.constant[1] * size + abs(p) * radius.proportional[1]);
      // Compares as accept() does: first by half the gap below, then by the whole radius.
      const double largest_error = rule.largest_beta_error + (g < 0 ? -g : g) * rule.gamma_error;
      unsigned inside = bits_of((off <= min(finite, of_t + (lesser_half_gap(out, half, least_half) - largest_error))) &
                                (abs(out) <= largest_out));
      if ((left & ~inside) != 0) {
        const bool rounds = (__builtin_bit_cast(std::uint64_t, g) & 0xfffffffffffff) != 0;
        L room = of_t + half_gap(out, y, rule.u_out, rule.eta_out) + (b < 0 ? -b : b) * rule.of_beta;
        if (rounds) room += abs(p) * rule.u_product;
        if (b != 0) room += abs(y) * rule.u_affine;
        room = room - underflow_of<L>(rule.least_error, d, row.scale, L(g));
        inside |= bits_of((off <= min(finite, room)) & (abs(out) <= largest_out));
        if ((left & ~inside) != 0 && rule.precise) {
          const InTwo<L> in_two{row.mean,
                                row.mean_rest,
                                row.scale,
                                row.scale_rest,
                                {radius.constant_in_two[0], radius.constant_in_two[1]},
                                {radius.proportional_in_two[0], radius.proportional_in_two[1]},
                                rule.u_product,
                                rule.u_affine,
                                rule.of_beta_in_two,
                                rule.u_out,
                                rule.eta_product,
                                false};
          inside |= in_two.inside(here[j], L(g), L(b), out);
        }
        // A product with 0 is exact.
        if ((left & ~inside) != 0)
          inside |= bits_of(((L(g) == L(0)) | ((here[j] == L(0)) & (row.off_mean == L(0)) & (row.mean == L(0)))) &
                            (out == L(b)) & (abs(L(g)) < L(lane_infinity)) & (abs(out) <= largest_out));
      }
      left &= inside;
    }
    accepted[r / lane_count] = static_cast<std::uint8_t>(left);
  }
}

}  // namespace attest::oracle::layer_norm
