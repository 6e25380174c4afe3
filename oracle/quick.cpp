#include "oracle/quick.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/element.hpp"
#include "oracle/lanes.hpp"
#include "oracle/quick_scratch.hpp"
#include "oracle/reach.hpp"
#include "oracle/score.hpp"

namespace attest::oracle {
namespace {

constexpr Index resident_doubles = 1 << 20, gathered_doubles = 1 << 17;

}  // namespace

Quick::Quick(const Call& call, Format out_format)
    : call_(call),
      format_(out_format),
      root_d_(std::sqrt(call.numbers.d)),
      scratch_(Scratch::of_thread()),
      rows_(scratch_.rows.data()) {
  const Numbers& m = call.numbers;
  const Arithmetic& how = m.arithmetic;
  after_ = how.normalise_after && how.sum_of_unrounded;
  before_ = how.divides_first();
  sum_rounded_only_ = !after_ && !before_;
  spared_ = after_ && !before_ && m.lazy == 0 && !m.operand_cut ? m.u_weights : 0;
  const bool permitted = after_ || before_ || (how.normalise_after && how.sum_of_rounded);
  // With directed rounding, what may overflow is not judged, which takes the full formulas to say.
  if (m.rounding == RoundingMode::directed || m.output != out_format || !permitted || call.keys < 1) return;

  columns_ = padded(call.dv);
  groups_ = columns_ / lane_count;
  stride_ = padded(call.keys);
  d_stride_ = padded(call.d);
  const Index per_key = call.d + columns_;
  if (call.keys * per_key <= resident_doubles) {
    tile_keys_ = stride_;
  } else {
    tile_keys_ = std::max<Index>(64, padded(gathered_doubles / per_key));
    tiles_ = (call.keys + tile_keys_ - 1) / tile_keys_;
  }
  kt_stride_ = tile_keys_ + lane_count;  // off the powers of two
  constexpr Index most_scores = Index{1} << 22;
  max_rows_ = std::min(most_rows, std::max<Index>(1, call.group * call.rows));
  if (max_rows_ * stride_ > most_scores) max_rows_ = std::max<Index>(1, most_scores / stride_);
  place_buffers();
  score_rule_ = {m.scale,
                 m.softcap,
                 m.softcap_before_bias,
                 m.scale != 0 ? m.e_acc + m.relative_scale + m.u_score : 0,
                 (m.tanh_absolute > 0 ? m.tanh_absolute : m.tanh_relative) + m.u_score,
                 m.u_score,
                 m.u_bias,
                 m.u_softmax};
  if (m.exact_scores) score_rule_ = {m.scale, m.softcap, m.softcap_before_bias, 0, 0, 0, 0, 0};
}

void Quick::average(std::span<const RowIndex> rows) {
  const auto count = static_cast<Index>(rows.size());
  if (rows[0].b != b_ || call_.kv_head(rows[0].h) != kv_) {
    b_ = rows[0].b;
    kv_ = call_.kv_head(rows[0].h);
    keys_tile_ = values_tile_ = -1;
  }
  load_queries(rows);
  for (Index tile = 0; tile < tiles_; ++tile) {
    load_keys(tile);
    const Index keys = padded(tile_size(tile));
    for (Index n = 0; n < count; n += 4)
      products::scores(q_ + n * d_stride_, d_stride_, std::min<Index>(4, count - n), kt_, kt_stride_, call_.d, keys,
                       p_ + n * stride_ + tile * tile_keys_, stride_);
  }
  // One bound for all rows, where it is small.
  top_ = largest_score(top_norm_ * k_norm_ * (1 + 1e-9), top_norm_, 0, k_norm_);
  one_top_ = !call_.has_bias && !top_.overflow() && top_.e < 1e-3;
  // Step by step for all rows: a processor has the next row to work on while the sums of one are folded.
  for (Index n = 0; n < count; ++n) score(n);
  for (Index n = 0; n < count; ++n) weigh(n);

  for (Index tile = 0; tile < tiles_; ++tile) {
    load_values(tile);
    const Index at = tile * tile_keys_, keys = tile_size(tile);
    for (Index n = 0; n < count; n += 4)
      products::values(p_ + n * stride_ + at, m_ + n * stride_ + at, stride_, std::min<Index>(4, count - n), v_, keys,
                       columns_, y_ + n * columns_, reach_ + n * columns_, tile > 0);
  }
}

Quick::Reach Quick::reach(Index n, Index column) const noexcept {
  const State& row = rows_[n];
  const products::AcceptRule& rule = row.accept;
  const double mean = y_[n * columns_ + column] * rule.inverse_mass, size = std::fabs(mean);
  const double moved = std::max(reach_[n * columns_ + column] * rule.inverse_mass - rule.gain * size, rule.t * size);
  const double shared = sum_rounded_only_ ? 0 : call_.numbers.u_weights - spared_;
  return {mean, (moved + rule.g * size + rule.absolute) * slack, std::max(0.0, rule.t - shared) * size * slack};
}

void Quick::load(std::span<const RowIndex> rows, const attest_tensor& out, const attest_tensor& lse) {
  average(rows);
  const auto count = static_cast<Index>(rows.size());
  read_rows(out, rows, call_.dv, got_, columns_);
  for (Index n = 0; n < count; ++n) accept(n, got_ + n * columns_);
  for (Index n = 0; n < count && attest_present(&lse); ++n) accept_lse(n, lse);
}

// Scores of one row, and whether everything about it is bounded.
void Quick::score(Index n) {
  State& row = row_at(n);
  const Numbers& m = call_.numbers;
  double *z = p_ + n * stride_, *e = d_ + n * stride_;
  const RowIndex& at = row.at;

  const double* bias = nullptr;
  if (call_.has_bias) {
    read_rows(call_.bias, {&at, 1}, call_.keys, bias_, stride_);
    bias = bias_;
  }
  const KeyRange range = call_.range(at.b, at.i);
  const double* open = nullptr;
  if (call_.has_keep || range.first > 0 || range.last < call_.keys) {
    std::fill_n(open_, stride_, -infinity);
    bool any = range.first < range.last;
    if (call_.has_keep) {
      const std::byte* const kept = element_at(call_.keep, at.b, at.h, at.i, 0);
      const Index step = call_.keep.strides[3];
      any = false;
      for (Index j = range.first; j < range.last; ++j) {
        const bool keeps = kept[j * step] != std::byte{0};
        open_[j] = keeps ? 0 : -infinity;
        any |= keeps;
      }
    } else if (any) {
      std::fill(open_ + range.first, open_ + range.last, 0.0);
    }
    open = open_;
    row.empty = !any && row.q_norm < infinity;
  }
  const products::ScoreSums sums = products::finish_scores(score_rule_, z, e, bias, open, call_.keys, stride_);
  row.n = sums.n;
  row.z_max = sums.z_max;
  // A NaN in the bias would pass for a key that is not attended.
  const bool bias_is_number = bias == nullptr || std::none_of(bias, bias + call_.keys, [](double x) { return x != x; });
  // A score that a bias of -inf excludes must not overflow: section 5.
  if (row.n == 0 && bias != nullptr && k_finite_ && bias_is_number && row.q_norm < infinity && !row.empty)
    row.closed_by_bias = !largest_score(row.q_norm * k_norm_ * (1 + 1e-9), row.q_norm, 0, k_norm_).overflow();
  if (row.n > 0 && k_finite_ && bias_is_number && std::fabs(row.z_max) < infinity) {
    // A bias of -inf under a final softcap is a score of its own: left to the full formulas.
    const bool odd = bias != nullptr && m.softcap > 0 && !m.softcap_before_bias;
    const double top_bias =
        bias == nullptr ? 0 : products::largest_bias_above(z, bias, row.z_max - m.near - 180, stride_);
    if (!odd && one_top_) row.bounded = bound_by_top(row, n);
    if (!odd && !row.bounded) {
      row.bounded = bound(row, largest_score(row.q_norm * k_norm_ * (1 + 1e-9), row.q_norm, top_bias, k_norm_));
      if (!row.bounded && tiles_ == 1)
        row.bounded = bound(row, largest_score((1 + 1e-9) * products::largest_absolute_score(
                                                                q_ + n * d_stride_, kt_, kt_stride_, call_.d, stride_),
                                               row.q_norm, top_bias, k_norm_));
    }
  }
}

const Quick::ForCount& Quick::for_count(double n) {
  if (for_count_ != nullptr && for_count_->n == n) return *for_count_;
  const Numbers& m = call_.numbers;
  ForCount* const begin = scratch_.counts.data();
  ForCount& f = for_count_ == nullptr || for_count_ == &scratch_.counts.back() ? *begin : begin[for_count_ - begin + 1];
  const double keys = static_cast<double>(call_.keys);
  f.n = n;
  f.r_most = m.rescalings(n, keys, n);
  const bool counts_records = m.exact_scores || (m.arithmetic.key_order != KeyOrder::any && !m.merges);
  f.r = counts_records ? m.rescalings(n, keys, 1) : f.r_most;
  f.a2 = m.merged_a2(n);
  f.wrong_shift = m.wrong_shift(n);
  f.ln_least = ln_least(n);
  f.ln_most = ln_most(n);
  f.every_exp = (2 + f.r) * m.ln_exp;
  f.every_exp_most = (2 + f.r_most) * m.ln_exp;
  f.blocks = m.blocks(n);
  f.sums_most = m.loss_of_weights(n, f.blocks, f.r_most);
  f.coarse = m.sums_are_coarse(n);
  f.t = m.shared_rounding(n, f.blocks, f.r, 0);
  f.g = m.ln_loss_of_weights(n, f.blocks, f.r) + 3 * m.c_div * m.u_final;
  for_count_ = &f;
  return f;
}

// An upper bound of a key's score and of its error.
Score Quick::largest_score(double absolute_score, double query_norm, double top_bias, double k_norm) const {
  const Numbers& m = call_.numbers;
  const double tiny = 1e-153 * root_d_;  // the size that squares may have hidden by underflow
  query_norm += tiny;
  absolute_score += tiny * k_norm * (1 + 1e-9);
  return score_of(m, {root_d_ * query_norm, query_norm}, {absolute_score, absolute_score, root_d_ * k_norm, k_norm},
                  std::copysign(top_bias, m.scale), ScoreBound::growing);
}

// Upper bounds of the row's errors: every formula of section 1 grows with its inputs, so it is evaluated once, on the
// largest. True if they prove that nothing overflows and that a finite result is judged by its own interval.
bool Quick::bound(State& row, const Score& top) {
  const Numbers& m = call_.numbers;
  const double other_top = m.scale != 0 ? top.e / m.scale_magnitude : 0;
  if (top.overflow() || (m.exp2 && 2 * (std::fabs(top.raw) + top.raw_error) + other_top >= m.overflow_softmax) ||
      !(top.e < 1e6))
    return false;
  row.e_most = (top.e + 2 * m.smallest_bias) * (1 + 1e-9);  // a smaller bias than the largest may be flushed
  row.z_most = std::fabs(top.z) * (1 + 1e-9) + row.e_most;
  const ForCount& f = *(row.f = &for_count(row.n));
  const double a2 = f.a2, wrong_shift = f.wrong_shift;
  if (!(wrong_shift * row.z_most <= 80)) return false;
  const double sum_exponent =
      m.lazy + wrong_shift * row.z_most + f.every_exp_most + f.ln_most + f.sums_most * (1 + m.u_softmax);
  if (!(sum_exponent < m.log_overflow_softmax - 1e-6)) return false;
  row.d_most = row.e_most +
               m.u_softmax *
                   (m.a1 * row.z_most + a2 * (row.z_most + m.lazy + f.ln_most + 1) + m.a3 * (4 * row.z_most + m.lazy)) +
               f.every_exp_most + m.u_weights;
  if (!(row.d_most < least_absorbing)) return false;
  if (!call_.has_bias) return true;
  // Keys further below the maximum than `near` + 180 were left out: their errors, which grow with their bias, must not
  // bring them back.
  const double per_bias = 4 * (m.u_score + m.u_bias + m.u_softmax);
  return per_bias <= 1.0 / 16 && 2 * row.e_most + per_bias * (std::fabs(row.z_max) + row.z_most) < 100;
}

// bound() by top_, which is that of the row before, if that has as many keys.
bool Quick::bound_by_top(State& row, Index n) {
  if (n == 0 || !row_at(n - 1).by_top || row_at(n - 1).n != row.n) return row.by_top = bound(row, top_);
  const State& before = row_at(n - 1);
  row.f = before.f;
  row.e_most = before.e_most;
  row.z_most = before.z_most;
  row.d_most = before.d_most;
  return row.by_top = true;
}

void Quick::weigh(Index n) {
  State& row = row_at(n);
  double *p = p_ + n * stride_, *weights = m_ + n * stride_;
  if (!row.bounded) {
    std::fill_n(p, stride_, 0.0);
    std::fill_n(weights, stride_, 0.0);
    return;
  }
  const Numbers& m = call_.numbers;
  const ForCount& f = *row.f;
  const double constant = f.every_exp + (sum_rounded_only_ ? m.u_weights : 0);
  const double cap = std::min(0.5, row.d_most);
  const double damping = (1 - cap + cap * cap * (0.5 - cap / 6)) * slack;  // <= e^-cap
  // Keys above that share, at least, cost a rounding of a sum each.
  const bool values_lose_least = m.values_lose_least(row.n), weights_lose_least = m.weights_lose_least(row.n);
  double light = 0;
  if (values_lose_least || weights_lose_least) {
    const double share = std::max(m.u_pv, m.u_softmax) * row.n * (1 + 1e-6);
    const Index heavy = products::count_from(p, row.z_max + std::log(share), stride_);
    light = row.n - static_cast<double>(std::max<Index>(1, heavy));
  }
  // ln(1 + n u) - ln(1 + m u) is at most (n - m) u / (1 + m u).
  const auto spared = [&](double keys, double u) { return light * u / (m.sums_linearly() ? 1 + keys * u : 1); };
  double t = (m.merges_widen() ? m.shared_rounding(row.n, f.blocks, f.r, std::fabs(row.z_max)) : f.t) +
             (sum_rounded_only_ ? 0 : m.u_weights) - (values_lose_least ? spared(row.n - light, m.u_pv) : 0);
  double g = f.g - (weights_lose_least ? spared(row.n - light - 1, m.u_sum) : 0), moving = damping;
  if (f.coarse) {
    // A mean of values of one sign keeps e^-(t + g), which is at least 1 - (t + g), and 1 - e^-x is at least x / (1 +
    // x/2 + x^2/12).
    const double lost = t + g, share = 1 / (1 + lost * (0.5 + lost / 12));
    moving *= std::max(0.0, 1 - lost);
    t *= share;
    g *= share;
  }
  const products::WeightRule rule{row.z_max, m.u_softmax, m.a1, f.a2, m.a3,  m.lazy + f.ln_least + 1,
                                  m.lazy,    constant,    cap,  t,    moving};
  const products::WeightSums sums = products::weigh(rule, p, p, d_ + n * stride_, weights, stride_);
  if (spared_ > 0) weights[std::max_element(p, p + stride_) - p] -= spared_;  // where p is 1
  row.mass = sums.mass;
  row.gain = moving > 0 ? sums.gain / moving : 0;
  const double inverse = 1 / row.mass;
  const double products = m.pv_sums.any() ? 0 : row.n;  // blocks of them may lose more
  // The absolute error of the way whose t this is: weights that are normalised first are all rounded.
  double absolute = before_ ? m.eta_pv * (products + 2) : m.eta_pv * (4 + (products + 2 * f.r + 6) * inverse);
  // The term taken off is the loss of this level's own products to underflow, at most 2^-1037: larger numbers do not
  // notice, and arithmetic with subnormal ones is slow.
  if (!(absolute > 0x1p-900)) absolute -= (row.n * inverse + 2) * 0x1p-1074;
  row.accept = {inverse,
                sums.gain * inverse,
                t - spared_,
                g,
                absolute,
                unit_roundoff(format_),
                format_ == Format::f64 ? 0 : half_smallest_subnormal(format_)};
}

void Quick::accept(Index n, const double* got) {
  State& row = row_at(n);
  std::uint8_t* bits = bits_ + n * groups_;
  if (!row.bounded || !v_finite_ || !(v_top_ < 1e200)) {
    row.bounded = false;
    std::fill_n(bits, groups_, std::uint8_t{0});
    return;
  }
  double* y = y_ + n * columns_;
  products::accept(row.accept, y, reach_ + n * columns_, got, columns_, bits);
  row.all = all_set(bits);
  if (!row.all && tiles_ == 1 && !row.f->coarse) look_again(row, n, got);
}

void Quick::accept_lse(Index n, const attest_tensor& lse) {
  State& row = row_at(n);
  if (!row.bounded) return;
  const RowIndex& at = row.at;
  row.lse = accepts_lse(row.z_max, row.mass, row.gain * row.accept.inverse_mass, row.accept.g,
                        attest_load(&lse, at.b, at.h, at.i, 0), lse.dtype.bits == 64 ? Format::f64 : Format::f32);
}

bool Quick::accepts_lse(double z_max, double mass, double gain, double g, double value, Format type) const {
  const Numbers& m = call_.numbers;
  const double ln_mass = std::log(mass), y = z_max + ln_mass;
  const bool rounded = m.arithmetic.sum_of_rounded && m.weights_round;
  const double radius =
      slack * (gain + g +
               m.u_softmax *
                   ((2 + (m.exp2 ? 3 : 0) + (m.merges ? 3 : 0)) * (std::fabs(z_max) + ln_mass + m.lazy) + 2 * ln_mass) +
               (rounded && !sum_rounded_only_ ? m.u_weights : 0));  // else d holds it already
  return std::fabs(value) < infinity && value >= round_to(type, y - radius) && value <= round_to(type, y + radius);
}

// Level 2, for the groups of eight columns that hold an element not yet accepted.
void Quick::look_again(State& row, Index n, const double* got) {
  const double* p = p_ + n * stride_;
  products::box(p, d_ + n * stride_, lo_, hi_, stride_);
  row.all = true;
  for (Index group = 0; group < groups_; ++group) {
    std::uint8_t& bits = bits_[n * groups_ + group];
    const Index c = group * lane_count;
    if (bits != 0xff)
      bits = static_cast<std::uint8_t>(bits | products::inside_box(row.accept, p, lo_, hi_, v_ + c, call_.keys,
                                                                   columns_, y_ + n * columns_ + c, got + c));
    row.all = row.all && bits == 0xff;
  }
}

bool Quick::all_set(const std::uint8_t* bits) const {
  return std::all_of(bits, bits + groups_, [](std::uint8_t set) { return set == 0xff; });
}

void Quick::accept_means(Index n, const Weights& weights) {
  std::uint8_t* const bits = bits_ + n * groups_;
  double *p = open_, *lo = lo_, *hi = hi_;
  if (std::ssize(weights.keys) < call_.keys)
    for (double* to : {p, lo, hi}) std::fill_n(to, call_.keys, 0.0);
  for (std::size_t t = 0; t < weights.keys.size(); ++t) {
    const Index j = weights.keys[t];
    p[j] = weights.p[t];
    lo[j] = weights.lo[t];
    hi[j] = weights.hi[t];
  }
  const products::MeanRule rule{unit_roundoff(format_), format_ == Format::f64 ? 0 : half_smallest_subnormal(format_)};
  for (Index group = 0; group < groups_; ++group) {
    const Index c = group * lane_count;
    if (bits[group] != 0xff)
      bits[group] = static_cast<std::uint8_t>(
          bits[group] | products::inside_means(rule, p, lo, hi, v_ + c, call_.keys, columns_, got_ + n * columns_ + c));
  }
  row_at(n).all = all_set(bits);
}

bool Quick::proves_not_wide(Index n) const {
  const State& row = rows_[n];
  if (!row.bounded) return false;
  const double box = (2 * growth_most(2 * row.d_most) + 1e-40) * v_top_;
  const ForCount& f = *row.f;
  // Only a bias takes keys that far.
  const bool far = call_.has_bias && f.wrong_shift > 0;
  const bool few =
      !far && row.n <= few_keys && row.e_most <= few_keys_e && row.d_most <= few_keys_d && row.z_most <= few_keys_z;
  if (few && leaves_out_value(n, few_keys_reach(call_, v_top_) + box)) return true;
  const RowBounds most{static_cast<Index>(row.n), row.e_most, row.d_most, row.z_most, f.ln_most, f.r_most, f.a2, far};
  return leaves_out_value(n, largest_reach(call_, most.numbers(call_.numbers), v_top_) + box);
}

// Tells whether the column of some accepted element of row n leaves out a value: it has one of a magnitude of at least
// twice `reach`, and one further than `reach` from their mean or all in one point; or it holds nothing but zeros.
bool Quick::leaves_out_value(Index n, double reach) const {
  const double* p = p_ + n * stride_;
  for (Index c = 0; c < std::min<Index>(call_.dv, lane_count); ++c) {
    if (!accepts(n, c)) continue;
    const auto value = [&](Index j) {
      return tiles_ == 1 ? v_[j * columns_ + c] : attest_load(&call_.v, b_, kv_, j, c);
    };
    const double y = y_[n * columns_ + c], first = value(0);
    bool all_equal = true, beyond = rows_[n].n == 1, large = false;
    for (Index j = 0; j < call_.keys; ++j) {
      const double v = value(j);
      all_equal = all_equal && v == first;
      beyond = beyond || (p[j] > 0 && std::fabs(v - y) > reach);
      large = large || (p[j] > 0 && std::fabs(v) >= 2 * reach);
      if (beyond && large) return true;
    }
    if (all_equal && (large || first == 0)) return true;
  }
  return false;
}

}  // namespace attest::oracle
