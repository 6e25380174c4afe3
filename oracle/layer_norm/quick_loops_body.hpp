#pragma once
// Bodies of RowLoops, for the files that make it.
#include "oracle/half_gap.hpp"
#include "oracle/lane_root.hpp"
#include "oracle/layer_norm/lane_sums.hpp"
#include "oracle/layer_norm/quick_loops.hpp"

namespace attest::oracle::layer_norm {

constexpr double bit_of(int n) { return static_cast<double>(std::uint64_t{1} << n); }

template <class L>
RowSums RowLoops<L>::sums(const double* x, Index n, double pivot) {
  L magnitudes = L(0), most = L(0), total = L(0), squares = L(0);
  const auto take = [&](const L& here, const L& z) __attribute__((always_inline)) {
    const L size = abs(here);
    magnitudes += size;
    most = max(most, size);
    total += z;
    squares += z * z;
  };
  Index i = 0;
  for (; i + lane_count <= n; i += lane_count) {
    const L here = load<L>(x + i);
    take(here, here - pivot);
  }
  if (i < n) {
    const auto inside = lane_numbers<L>() < static_cast<double>(n - i);
    const L here = load<L>(x + i);
    take(zero_unless(inside, here), zero_unless(inside, here - pivot));
  }
  return {sum(magnitudes), attest::oracle::largest(most), sum(total), sum(squares)};
}

template <class L>
ColumnFacts RowLoops<L>::columns(const ColumnRule& rule, const double* gamma, const double* beta, Index n) {
  L most_gamma = L(0), most_beta = L(0), least_gamma = L(lane_infinity);
  unsigned narrow = 0xff;
  for (Index i = 0; i < n; i += lane_count) {
    const L g = abs(load<L>(gamma + i)), b = abs(load<L>(beta + i));
    const auto numbers = (g < L(lane_infinity)) & (b < L(lane_infinity));
    const auto small = (b * rule.of_beta + rule.least <= g * rule.hull) | (g == L(0));
    narrow &= bits_of(numbers & small) | (n - i < lane_count ? 0xffU << (n - i) : 0U);
    // Behind the row are zeros, or the offset of gamma.
    most_gamma = max(most_gamma, g);
    least_gamma = min(select(g > L(0), g, L(lane_infinity)), least_gamma);
    most_beta = max(most_beta, b);
  }
  const double least = folded(
      least_gamma, [](auto a, auto b) __attribute__((always_inline)) { return b < a ? b : a; });
  return {attest::oracle::largest(most_gamma), least, attest::oracle::largest(most_beta), narrow == 0xff};
}

template <class L>
PreciseSums RowLoops<L>::precise_sums(const double* x, Index n) {
  TwoSums<L> total;
  L magnitudes = L(0), most = L(0);
  for (Index i = 0; i < n; i += lane_count) {
    const L here = i + lane_count <= n ? load<L>(x + i)
                                       : zero_unless(lane_numbers<L>() < static_cast<double>(n - i), load<L>(x + i));
    total.add(here);
    magnitudes += abs(here);
    most = max(most, abs(here));
  }
  PreciseSums sums{0, 0, sum(magnitudes), attest::oracle::largest(most)};
  total.fold(sums.sum, sums.sum_rest);
  return sums;
}

template <class L>
PreciseSquares RowLoops<L>::precise_squares(const double* x, Index n, double mean, double mean_rest) {
  TwoSums<L> total;
  Index i = 0;
  if (mean == 0 && mean_rest == 0)
    for (; i + lane_count <= n; i += lane_count) total.add_square(load<L>(x + i));
  for (; i < n; i += lane_count) {
    const L here = load<L>(x + i);
    if (i + lane_count <= n)
      total.add_square(here, L(mean), L(mean_rest));
    else
      total.add_square(here, L(mean), L(mean_rest), lane_numbers<L>() < static_cast<double>(n - i));
  }
  PreciseSquares squares{};
  total.fold(squares.sum, squares.rest);
  return squares;
}

template <class L>
double RowLoops<L>::near_squares(const double* x, Index n, double mean) {
  TwoSums<L> total;
  const auto square = [&](Index at) __attribute__((always_inline)) {
    const L d = load<L>(x + at) - mean;
    return d * d;
  };
  Index i = 0;
  for (; i + 4 * lane_count <= n; i += 4 * lane_count)
    total.add((square(i) + square(i + lane_count)) + (square(i + 2 * lane_count) + square(i + 3 * lane_count)));
  for (; i + lane_count <= n; i += lane_count) total.add(square(i));
  if (i < n) total.add(zero_unless(lane_numbers<L>() < static_cast<double>(n - i), square(i)));
  double sum = 0, rest = 0;
  total.fold(sum, rest);
  return sum;
}

// Returns the loss of (d scale) g by underflow in double, `each` being the loss of one rounding: one for the product
// with g, and g times as much where d scale is tiny. Nothing is lost where d is 0.
template <class L>
ATTEST_LANE_FN L underflow_of(double each, const L& d, const L& scale, const L& g) {
  const auto tiny = abs(d) * scale < L(0x1p-950);
  L of_tiny = L(0);
  if (bits_of(tiny) != 0) of_tiny = zero_unless(tiny, abs(g) * each);  // products of subnormal numbers are slow
  return zero_unless((g != L(0)) & (d != L(0)), of_tiny + each);
}

// Returns no more than half the gap on either side of `out`. For a power of two it is the gap below, so that no side
// has to be looked at. It is 0 next to 0, where the gap would be subnormal. An infinity has no gap, and is left.
template <class L>
ATTEST_LANE_FN L lesser_half_gap(const L& out, double half, double least_half) {
  const L size = abs(out);
  const auto below = bits_as<typename L::Bits>(size) + typename L::Bits(-1);
  return max(zero_unless(size > L(0x1p-900), power_of(bits_as<L>(below))) * half, L(least_half));
}

// The permitted radius of t and of the steps after it beside a reference in two doubles. Lanes hold the elements of a
// row, each number of the row in every lane, or they hold one row each.
template <class L>
struct InTwo {
  L mean, mean_rest, scale, scale_rest, constant[2], proportional[2];
  double u_product, u_affine, of_beta, u_out, eta_product;
  // x and the radius are multiplied by AcceptRowRule::raise; else gamma is raised where nothing is large, so that no
  // product is subnormal. Lanes in which some number is near the ends of double all the same are left undecided.
  bool raised;
  [[nodiscard]] ATTEST_LANE_FN unsigned inside(const L& x, const L& gamma, const L& beta, const L& got) const {
    using Bits = typename L::Bits;
    constexpr double raise = AcceptRowRule::raise;
    const L large = L(0x1p300);
    const auto small = (abs(beta) < large) & (abs(got) < large) & (raised ? Bits(-1) : abs(gamma) < large);
    const L by = select(small, L(raise), L(1)), g = raised ? gamma : gamma * by, b = beta * by, out = got * by;
    // In a row close to a constant the second double of the mean may be as large as the difference.
    const L apart = x - mean, part = x - apart, of_apart = ((x - (apart + part)) + (part - mean)) - mean_rest;
    const L d = apart + of_apart, beside = d - apart, of_d = (apart - (d - beside)) + (of_apart - beside);
    L of_t, of_p;
    const L t = exact_product(d, scale, of_t);
    of_t += d * scale_rest + of_d * scale;
    const L p = exact_product(t, g, of_p);
    of_p += of_t * g;
    const L y = p + b, added = y - p, of_y = ((p - (y - added)) + (b - added)) + of_p;
    const L off = abs((out - y) - of_y), size = abs(g), product = abs(p);
    const auto rounds = (bits_as<Bits>(gamma) & 0xfffffffffffff) != Bits(0);
    const L radius =
        max(size * constant[0] + product * proportional[0], size * constant[1] + product * proportional[1]);
    const L of_rounding =
        max(lesser_half_gap(out, u_out * slack, 0.0), zero_unless(small, L(raise * 0x1p-1074 / 2 * slack)));
    const L room = radius + zero_unless(rounds, product * u_product) + zero_unless(b != L(0), abs(y) * u_affine) +
                   abs(b) * of_beta + zero_unless(small, L(raise * eta_product * slack)) + of_rounding;
    auto held = (abs(t) > L(0x1p-700)) & (product > L(0x1p-800)) & (product < L(0x1p900)) & (size < L(0x1p900)) &
                (abs(out) < L(0x1p1000));
    if (raised) held = held & small;
    return bits_of(held & (off <= room));
  }
};

// round_to() in lanes.
template <class L>
ATTEST_LANE_FN L rounded_to(Format format, const L& x) {
  using Bits = typename L::Bits;
  if (format == Format::f64) return x;
  if (format == Format::f32) return widen(narrow(x));
  const L magnitude = abs(x), power = power_of(magnitude);
  // One and a half times as much as leaves no bits below the last one of the format.
  const double beyond = 0x1.8p0 * bit_of(53 - precision(format));
  const L shifter = max(power, L(smallest_normal(format))) * beyond;
  L rounded = (magnitude + shifter) - shifter;
  rounded = select(rounded > L(largest_finite(format)), L(lane_infinity), rounded);
  rounded = select(magnitude < L(lane_infinity), rounded, magnitude);
  const Bits sign = bits_as<Bits>(x) & static_cast<std::int64_t>(0x8000000000000000);
  return bits_as<L>(bits_as<Bits>(rounded) | sign);
}

template <class L>
void RowLoops<L>::add(const AddRule& rule, const double* x, const double* residual, Index n, double* to_sum,
                      double* stored) {
  using Bits = typename L::Bits;
  for (Index i = 0; i < n; i += lane_count) {
    const L a = load<L>(x + i), b = load<L>(residual + i), total = a + b, part = total - a;
    L exact = total;
    if (rule.sum != Format::f64) {  // the rest of the double sum makes its last bit odd, so that no tie arises
      const L rest = (a - (total - part)) + (b - part);
      const Bits bits = bits_as<Bits>(total);
      const Bits odd = (rest != L(0)) & (abs(total) < L(lane_infinity)) & ((bits & 1) == Bits(0));
      const Bits outward = ((rest > L(0)) & (total > L(0))) | ((rest < L(0)) & (total < L(0)));
      exact = bits_as<L>(bits + (odd & ((outward & 1) - (~outward & 1))));
    }
    const L rounded = rounded_to(rule.sum, exact);
    store(to_sum + i, rounded);
    store(stored + i, rule.storage == rule.sum ? rounded : rounded_to(rule.storage, rounded));
  }
}

template <class L>
bool RowLoops<L>::same(const double* a, const double* b, Index n) {
  typename L::Bits all(-1);
  Index i = 0;
  for (; i + lane_count <= n; i += lane_count) all &= load<L>(a + i) == load<L>(b + i);
  const unsigned left = i < n ? bits_of(load<L>(a + i) == load<L>(b + i)) | 0xffU << (n - i) : 0xff;
  return (bits_of(all) & left & 0xff) == 0xff;
}

// Judges the elements that accept() left at first by the whole of the permitted radius.
template <class L>
[[gnu::noinline]] void accept_rest(const AcceptRowRule& rule, const double* x, const double* gamma, const double* beta,
                                   const double* got, Index n, std::uint8_t* accepted) {
  using Bits = typename L::Bits;
  const L finite = L(largest_finite(Format::f64)), largest_out = L(rule.largest_out);
  for (Index i = 0; i < n; i += lane_count) {
    unsigned bits = accepted[i / lane_count];
    if (bits == 0xff) continue;
    const L g = load<L>(gamma + i), b = load<L>(beta + i), out = load<L>(got + i);
    const L d = load<L>(x + i) - rule.mean, size = abs(g);
    // A product with 0 is exact.
    const auto of_zero = (g == L(0)) | ((d == L(0)) & (size < L(rule.exact_mean ? lane_infinity : 0)));
    bits |= bits_of(of_zero & (out == b) & (abs(out) <= largest_out));
    if (bits != 0xff && !rule.raised) {
      const L p = d * rule.scale * g, y = p + b, off = abs(out - y), product = abs(p);
      L of_t = max(size * rule.constant[0] + product * rule.proportional[0],
                   size * rule.constant[1] + product * rule.proportional[1]);
      const auto rounds = (bits_as<Bits>(g) & 0xfffffffffffff) != Bits(0);
      const L of_product = zero_unless(rounds, product * rule.u_product);
      const L of_sum = zero_unless(b != L(0), abs(y) * rule.u_affine) + abs(b) * rule.of_beta;
      if (rule.turns) {
        const L t = abs(d * rule.scale);
        const L turn = root<L>((1 + t * t * rule.turn_w) * rule.turn_s) - t;
        const L far = size * (turn * rule.turn_stretch + rule.turn_constant) + product * rule.turn_proportional;
        const L near = max(size * rule.near_constant[0] + product * rule.near_proportional[0],
                           size * rule.near_constant[1] + product * rule.near_proportional[1]);
        const auto outward = bits_as<Bits>((out - y) * p) >= Bits(0);
        of_t = max(of_t, select(outward, zero_unless(t >= L(rule.turn_from), far), near));
      }
      const L room = of_t + of_product + of_sum + half_gap(out, y, rule.u_out, rule.eta_out) -
                     underflow_of<L>(rule.least_error, d, rule.scale, g);
      bits |= bits_of((off <= min(finite, room)) & (abs(out) <= largest_out));
    }
    if (bits != 0xff && rule.in_two) {
      const InTwo<L> in_two{rule.mean,
                            rule.mean_rest,
                            rule.scale,
                            rule.scale_rest,
                            {rule.constant_in_two[0], rule.constant_in_two[1]},
                            {rule.proportional_in_two[0], rule.proportional_in_two[1]},
                            rule.u_product,
                            rule.u_affine,
                            rule.of_beta_in_two,
                            rule.u_out,
                            rule.eta_product,
                            rule.raised};
      bits |= in_two.inside(load<L>(x + i), g, b, out);
    }
    accepted[i / lane_count] = static_cast<std::uint8_t>(bits);
  }
}

template <class L>
bool RowLoops<L>::accept(const AcceptRowRule& rule, const double* x, const double* gamma, const double* beta,
                         const double* got, Index n, std::uint8_t* accepted) {
  const double half = rule.u_out * slack, least_half = rule.eta_out * slack;
  const bool two = rule.constant[1] > rule.constant[0];
  // Where out is float64 its reference may be infinite, and so may a permitted value. A raised row is compared in other
  // units.
  const L finite = L(rule.raised ? -1 : largest_finite(Format::f64));
  unsigned all = 0xff;
  for (Index i = 0; i < n; i += lane_count) {
    const L g = load<L>(gamma + i), b = load<L>(beta + i), out = load<L>(got + i);
    // The order of the product matters: a tiny gamma times the root may have few bits.
    const L p = (load<L>(x + i) - rule.mean) * rule.scale * g, off = abs(out - (p + b));
    L of_t = abs(g) * rule.constant[0] + abs(p) * rule.proportional[0];
    if (two) of_t = max(of_t, abs(g) * rule.constant[1] + abs(p) * rule.proportional[1]);
    L room = of_t + (lesser_half_gap(out, half, least_half) - rule.largest_beta_error);
    if (rule.gamma_error > 0) room = room - abs(g) * rule.gamma_error;
    const auto surely = off <= min(finite, room);
    const unsigned bits = bits_of(surely) | (n - i < lane_count ? 0xffU << (n - i) : 0U);
    accepted[i / lane_count] = static_cast<std::uint8_t>(bits);
    all &= bits;
  }
  if ((all & 0xff) == 0xff) return true;
  accept_rest<L>(rule, x, gamma, beta, got, n, accepted);
  for (Index i = 0; i < n; i += lane_count)
    if (accepted[i / lane_count] != 0xff) return false;
  return true;
}

}  // namespace attest::oracle::layer_norm
