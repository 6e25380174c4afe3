// The statistical side of the quick levels: a lower bound of s for every element (docs/bounds.md, "Tiers two and three").
// Every term of section 7 is at least 0; those that are not cheap are left out, and the sum of the squares of a score's
// products is replaced by its least, s^2 / D.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/format.hpp"
#include "oracle/quick.hpp"
#include "oracle/quick_scratch.hpp"
#include "oracle/series.hpp"
#include "oracle/statistical.hpp"

namespace attest::oracle {
namespace {

// The power of two whose product with x > 0 lies in [1, 2); 2^1022 at most.
double scale_to_one(double x) {
  const std::uint64_t exponent = std::max<std::uint64_t>(std::bit_cast<std::uint64_t>(x) >> 52, 1);
  return std::bit_cast<double>((2046 - exponent) << 52);
}

double scale_for(double top) { return top > 0 && top < 1e200 ? scale_to_one(top) : 1; }

// The largest magnitude of a head, told by the bits of its elements, which rise with it: where rows are dense, and all is finite.
struct Extreme {
  bool known;
  double magnitude;
};
template <class Bits>
Bits largest_bits(const attest_tensor& t, Index b, Index h, Index rows, Index count) {
  Bits top = 0;
  for (Index i = 0; i < rows; ++i) {
    const auto* const row = reinterpret_cast<const Bits*>(element_at(t, b, h, i, 0));
    for (Index c = 0; c < count; ++c)
      top = std::max(top, static_cast<Bits>(row[c] & std::numeric_limits<Bits>::max()));  // signed, without the sign
  }
  return top;
}
Extreme largest_of(const attest_tensor& t, Index b, Index h, Index rows, Index count) {
  if (t.strides[3] != 1) return {false, 0};
  if (t.dtype.bits == 32) {
    const auto bits = largest_bits<std::int32_t>(t, b, h, rows, count);
    return {bits < 0x7F800000, static_cast<double>(std::bit_cast<float>(bits))};
  }
  if (t.dtype.bits != 16) return {false, 0};
  const auto bits = largest_bits<std::int16_t>(t, b, h, rows, count);
  const auto half = static_cast<std::uint16_t>(bits);
  return t.dtype.code == ATTEST_BFLOAT ? Extreme{bits < 0x7F80, attest::decode_bf16(half)}
                                       : Extreme{bits < 0x7C00, attest::decode_f16(half)};
}

// Less than near_lambda of s by more than is added to `largest` as it is told.
constexpr double near_limit = Statistics::near_lambda * spread_margin * (1 - 1e-4);

}  // namespace

void Quick::prepare_spreads() {
  const Numbers& m = call_.numbers;
  const bool capped = m.softcap > 0;
  const double u2 = square(unit64);
  double per_s = m.of_acc * ((m.d + 1) * (1 / (6 * m.d) + 1.0 / 3) + (m.inexact_qk ? 1 / m.d : 0)) + m.of_score;
  if (m.u_operand > 0) per_s += square(m.u_operand) / (3 * m.d);
  if (m.scaled_keys) per_s += (2 * square(m.u_scale) + square(m.u_entered)) / (3 * m.d);
  double per_z = m.of_argument + u2;
  if (call_.has_bias || capped) per_z += m.of_stored;
  double constant = m.of_exp;
  if (capped) {
    // Of s only what the cap left is known. It is at most s, and at most c.
    per_s = std::min(per_s + square(m.u_cap), 0.25);
    const bool absolute = m.tanh_absolute > 0;
    constant += square((absolute ? m.tanh_absolute : 0) * m.softcap) / 3 + square(m.eta_cap * (1 + m.softcap));
    per_s += square(absolute ? 0 : m.tanh_relative) / 3;
  } else {
    constant += m.d * square(m.eta_acc * m.mu);
  }
  per_s += u2 * (2 + 8 / m.d);  // this and every u2: the reference's own error
  variance_rule_ = {.z_max = 0,
                    .constant = constant * m.inverse_unit2,
                    .per_s = per_s * m.inverse_unit2,
                    .per_z = per_z * m.inverse_unit2,
                    .per_below = m.of_below + u2 * m.inverse_unit2,
                    .per_bias = m.of_bias() * m.inverse_unit2};
}

void Quick::prepare_spreads(ForCount& f) const {
  const Numbers& m = call_.numbers;
  // The reference's own error grows with the sum of |p v|, whose square is at least that of y and the sum of squares.
  const double own = square(unit64) * (f.n + 8) / 2;
  f.every = m.of_pv * ((f.n + 1) * (1.0 / 6) + (m.inexact_pv ? 1 : 0)) + own;
  if (before_) f.every += square(m.c_div * m.u_softmax) / m.division_noise();
  if (m.merges) f.every += square(m.u_partial + 2 * m.c_div * m.u_final) / m.division_noise();
  f.rounded = f.every + (m.weights_round ? square(m.u_weights) / 3 : 0);
  f.per_mean2 = (m.of_pv + m.of_sum) * ((f.n + 1) * (1.0 / 3) + 3) + m.of_final + own;
}

void Quick::vary(State& row, Index n, const double* z, const double* bias) {
  const Numbers& m = call_.numbers;
  products::VarianceRule rule = variance_rule_;
  rule.z_max = row.z_max;
  rule.constant += square(row.f->a2 * row.z_max) / 3;
  if (m.scaled_keys && m.softcap == 0) rule.constant += square(m.eta_scale * row.q_norm * slack / m.u_softmax);
  const double most = products::variances(rule, z, bias, w_ + n * stride_, stride_);
  row.has_near = true;
  row.has_spread = largest_tau(row, most * square(m.u_softmax), k_) <= linear_limit &&
                   !shares_largest_weight(m, row.f->a2, row.z_max);
}

// An upper bound of tau + tau1 of the keys that count, from the largest of the variances above: these took the least that
// a score's products may be, and the fewest records.
double Quick::largest_tau(const State& row, double variance, const KeyExtent& k) const {
  const Numbers& m = call_.numbers;
  const double k_norm = k.norm * m.scale_magnitude, k_top = (std::sqrt(k.top2) + 1e-153) * m.scale_magnitude;
  const double products = std::min({row.q_norm * k_top, row.q_top * k_norm, row.q_norm * k_norm});
  variance += square(m.u_acc * products) * ((m.d + 1) / 18 + (m.inexact_qk ? 1.0 / 3 : 0)) +
              square(m.c_exp) / 3 * row.n + square(m.eta_score) +
              square(std::max(m.tanh_absolute, m.tanh_relative) * m.softcap) * 2 / 3;
  if (m.scaled_keys)
    variance +=
        (2 * square(m.u_scale) + square(m.u_entered)) * square(products) / 3 + square(m.eta_entering * row.q_norm);
  double shared = m.u_softmax * row.f->a2 * (std::fabs(row.z_max) + row.e_most);
  if (m.scaled_queries)
    shared += (m.u_scale * std::sqrt(2.0) + m.u_entered) * products + (m.eta_scale + m.eta_entering) * k.norm;
  return std::sqrt(variance) + shared / std::sqrt(3.0);
}

// Given sum p^2 and the errors that no division takes back, or less.
Quick::MeanPart Quick::mean_part(const State& row, double p2, double undivided) const {
  const Numbers& m = call_.numbers;
  const ForCount& f = *row.f;
  const double inverse = row.accept.inverse_mass;
  const double per_mean2 = f.per_mean2 + m.of_sum * (row.n + 1) * (p2 * inverse * inverse * (1.0 / 6)) +
                           square((m.merges ? m.c_div * m.u_final : 0) + undivided * (1 / std::sqrt(3.0)));
  return {.per_mean2 = per_mean2 * slack,
          .absolute = std::max({f.root_n * m.eta_pv, m.c_div * m.eta_pv, m.merges ? m.eta_partial : 0}) * slack};
}

void Quick::square_row(Index n) {
  State& row = row_at(n);
  if (!row.has_near) return clear_spread(n);
  const Numbers& m = call_.numbers;
  const ForCount& f = *row.f;
  const double keys = row.n, top = std::fabs(row.z_max);
  // Where the largest weight may come out small, more weights may be lost than are told from `least`.
  const double shift_error = 2 * m.u_softmax * (2 * top + 1);
  const double rounded = shift_error < 0.01 ? f.rounded : f.every;
  const products::SquareSums sums =
      products::square_weights({f.every * m.inverse_unit2, rounded * m.inverse_unit2, 2 * keys * m.eta_weights},
                               p_ + n * stride_, w_ + n * stride_, w2_ + n * stride_, stride_);
  row.weights = sums.p2 > 0 ? square(row.mass) / sums.p2 : 0;
  // Of all that, what is no rounding is part of the bias, and not of s.
  double undivided = m.merges_widen() ? m.with_merges(0, keys, top) : 0;
  double one_sided = m.merges_widen() ? m.one_sided_merges(keys) : 0;
  if (m.arithmetic.normalise_lse) {
    undivided += m.u_softmax * ((2 + (m.exp2 ? 4 : 0)) * (top + m.lazy + f.ln_least + 1) + m.a3 * (f.ln_least + 1)) +
                 4 * m.c_exp;
    one_sided += 4 * m.one_sided_exp;
  }
  // What a narrower operand loses of v is no part of s.
  row.has_near = row.e_most <= top + 1 && sums.w < 1e30 && undivided <= largest_undivided && !m.operand_rounds;
  // A key whose weight is 0 may be off so far that T leaves the row out.
  row.has_spread = row.has_spread && row.has_near && !sums.hides;
  if (!row.has_near) return clear_spread(n);

  const double underflow =
      2 * f.root_n *
      ((m.eps_lazy + m.eta_weights) * row.accept.inverse_mass + (before_ ? m.eta_quotient() + m.eta_weights : 0)) *
      (shift_error < 0.01 ? 1 : std::exp(bounded(shift_error)));
  const MeanPart of_mean = mean_part(row, sums.p2, undivided - one_sided);
  row.spread = {.inverse_mass = row.accept.inverse_mass,
                .scale = 0,  // measure() knows it
                .unit2 = square(m.u_softmax) * slack,
                .weight_sum = sums.w,
                .epsilon = 2 * (keys + 16) * 0x1p-24,
                .underflow = 0x1p-146 * (sums.w + rounded * m.inverse_unit2 * sums.p2 + keys),
                .per_mean2 = of_mean.per_mean2,
                .absolute = of_mean.absolute,
                .unit = row.accept.unit,
                .gap = format_ == Format::f64 ? 0 : row.accept.unit,
                .tiny = half_smallest_subnormal(format_),
                .floor = underflow + 0x1p-62 * f.root_n,  // and weights that the moments leave out
                .limit = near_lambda * spread_margin * slack};
}

void Quick::clear_spread(Index n) {
  std::fill_n(w_ + n * stride_, stride_, 0.0F);
  std::fill_n(w2_ + n * stride_, stride_, 0.0F);
}

// The power of two below the head's largest value: the unit of the moments.
void Quick::choose_value_scale() {
  double top = v_top_;
  if (tiles_ > 1) {
    constexpr Index at_once = 64;
    const Extreme by_bits = largest_of(call_.v, b_, kv_, call_.keys, call_.dv);
    if (by_bits.known) {
      value_scale_ = scale_for(std::max(top, by_bits.magnitude));
      return;
    }
    std::vector<double> rows(static_cast<std::size_t>(at_once * columns_));
    for (Index j = 0; j < call_.keys; j += at_once) {
      const Index count = std::min(at_once, call_.keys - j);
      read_rows(call_.v, b_, kv_, j, count, call_.dv, rows.data(), columns_);
      const auto some = std::span(rows).first(static_cast<std::size_t>(count * columns_));
      const products::Extent size = products::magnitudes(some.data(), std::ssize(some));
      if (size.total < infinity)
        top = std::max(top, size.largest);
      else  // a NaN hides what came before it
        for (const double v : some) top = std::max(top, std::fabs(v));
    }
  }
  value_scale_ = scale_for(top);
}

void Quick::scale_values(Index tile) {
  products::squares(v_, value_scale_, scaled_, squared_, tile_size(tile) * columns_);
}

void Quick::add_moments(Index rows, Index tile) {
  const Index at = tile * tile_keys_, keys = tile_size(tile);
  for (Index n = 0; n < rows; n += 4)
    products::moments(w_ + n * stride_ + at, w2_ + n * stride_ + at, stride_, std::min<Index>(4, rows - n), scaled_,
                      squared_, keys, columns_, first_ + n * columns_, second_ + n * columns_, tile > 0);
}

void Quick::measure(Index n, const double* got) {
  State& row = row_at(n);
  if (!row.has_near) return;
  row.spread.scale = value_scale_;
  row.sums = products::spread(row.spread, y_ + n * columns_, first_ + n * columns_, second_ + n * columns_, got,
                              columns_, call_.dv, near_ + n * groups_);
  if (spreads_ == Spreads::near || !row.has_spread) row.sums.squares = row.sums.finite = 0;
}

bool Quick::near_by_mean(Index rows) {
  bool all_near = true;
  for (Index n = 0; n < rows; ++n) {
    State& row = row_at(n);
    if (!row.bounded) continue;
    row.has_near = row.has_spread = true;
    row.sums = {.squares = 0, .finite = 0, .largest = near_limit, .all_near = true};
    all_near &= near_by_mean_of(n);
  }
  return all_near;
}

bool Quick::near_by_mean_of(Index n) {
  const State& row = row_at(n);
  const MeanPart of_mean = mean_part(row, 0, 0);
  const products::NearRule rule{.scale = value_scale_,
                                .per_mean2 = square(near_limit) * of_mean.per_mean2,
                                .absolute = square(near_limit * of_mean.absolute * value_scale_),
                                .gap = format_ == Format::f64 ? 0 : row.accept.unit,
                                .tiny = half_smallest_subnormal(format_)};
  return products::near_by_mean(rule, y_ + n * columns_, got_ + n * columns_, columns_, call_.dv, near_ + n * groups_);
}

void Quick::look_closer(Index rows) {
  prepare_spreads();
  scale_values(0);
  for (Index n = 0; n < rows; ++n) {
    State& row = row_at(n);
    row.has_near = row.has_spread = false;
    if (!row.bounded) continue;
    if (call_.has_bias) read_rows(call_.bias, {&row.at, 1}, call_.keys, bias_, stride_);
    vary(row, n, z_ + n * stride_, call_.has_bias ? bias_ : nullptr);
  }
  for (Index n = 0; n < rows; ++n) square_row(n);
  add_moments(rows, 0);
  for (Index n = 0; n < rows; ++n) measure(n, got_ + n * columns_);
}

}  // namespace attest::oracle
