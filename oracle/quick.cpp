#include "oracle/quick.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/element.hpp"
#include "oracle/lanes.hpp"
#include "oracle/quick_scratch.hpp"
#include "oracle/score.hpp"

namespace attest::oracle {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double slack = 1 - 1e-6;
constexpr double ln_2 = 0.6931471805599453;
constexpr Index resident_doubles = 1 << 20, gathered_doubles = 1 << 17, most_together = 4096;

}  // namespace

Quick::Quick(const Call& call, Format out_format, bool spreads)
    : call_(call),
      format_(out_format),
      scratch_(Scratch::of_thread()),
      rows_(scratch_.rows),
      bits_(scratch_.bits),
      near_(scratch_.near),
      spreads_(spreads) {
  const Numbers& m = call.numbers;
  const Arithmetic& how = m.arithmetic;
  after_ = how.normalise_after && how.sum_of_unrounded;
  before_ = how.normalise_before || how.normalise_lse;
  sum_rounded_only_ = !after_ && !before_;
  const bool permitted = after_ || before_ || (how.normalise_after && how.sum_of_rounded);
  // With directed rounding, what may overflow is not judged, which takes the full formulas to say.
  if (m.rounding == RoundingMode::directed || m.output != out_format || !permitted || call.keys < 1 || call.d < 1 ||
      call.dv < 1)
    return;

  columns_ = padded(call.dv);
  groups_ = columns_ / lane_count;
  stride_ = padded(call.keys);
  const Index per_key = call.d + columns_;
  tile_keys_ =
      call.keys * per_key <= resident_doubles ? stride_ : std::max<Index>(64, padded(gathered_doubles / per_key));
  tiles_ = (call.keys + tile_keys_ - 1) / tile_keys_;
  kt_stride_ = tile_keys_ + lane_count;  // off the powers of two
  max_rows_ = std::clamp<Index>((Index{1} << 20) / stride_, 1, most_rows);
  log_overflow_softmax_ = ln_2 * std::ilogb(m.overflow_softmax);  // a lower bound
  score_rule_ = {m.scale,
                 m.softcap,
                 m.softcap_before_bias,
                 m.scale != 0 ? m.e_acc + m.relative_scale + m.u_score : 0,
                 (m.tanh_absolute > 0 ? m.tanh_absolute : m.tanh_relative) + m.u_score,
                 m.u_score,
                 m.u_bias,
                 m.u_softmax};
  if (spreads_) prepare_spreads();
}

Index Quick::tile_size(Index tile) const noexcept { return std::min(tile_keys_, call_.keys - tile * tile_keys_); }

// K of one tile, transposed. Blocks of keys keep the strided reads in cache.
void Quick::load_keys(Index tile) {
  if (keys_tile_ == tile) return;
  keys_tile_ = tile;
  const Index count = tile_size(tile), first = tile * tile_keys_;
  double* kt = Scratch::need(scratch_.kt, call_.d * kt_stride_ + lane_count);
  if (call_.k.strides[3] == 1 && call_.k.strides[2] == call_.d && count * call_.d <= most_together) {
    double* together = Scratch::need(scratch_.together, most_together);
    read_row(call_.k, b_, kv_, first, count * call_.d, together);
    for (Index j = 0; j < count; ++j)
      for (Index c = 0; c < call_.d; ++c) kt[c * kt_stride_ + j] = together[j * call_.d + c];
  } else {
    for (Index j = 0; j < count; j += 64)
      for (Index c = 0; c < call_.d; ++c)
        read_column(call_.k, b_, kv_, first + j, std::min<Index>(64, count - j), c, kt + c * kt_stride_ + j);
  }
  for (Index c = 0; c < call_.d; ++c) std::fill(kt + c * kt_stride_ + count, kt + c * kt_stride_ + padded(count), 0.0);
  const products::SquareExtent squares = products::square_sums(kt, kt_stride_, call_.d, padded(count));
  // Squares of tiny numbers underflow: what they may have hidden is below 1e-153.
  k_norm_ = std::max(tile == 0 ? 0.0 : k_norm_, std::sqrt(squares.largest) + 1e-153 * std::sqrt(call_.numbers.d));
  k_top_ = std::max(tile == 0 ? 0.0 : k_top_, std::sqrt(squares.largest_element) + 1e-153);
  k_finite_ = (tile == 0 || k_finite_) && squares.total < infinity;
}

void Quick::load_values(Index tile) {
  if (values_tile_ == tile) return;
  values_tile_ = tile;
  const Index count = tile_size(tile), first = tile * tile_keys_;
  double* v = Scratch::need(scratch_.v, tile_keys_ * columns_);
  const bool dense = call_.v.strides[3] == 1 && call_.v.strides[2] == call_.dv;
  if (dense && columns_ == call_.dv) {
    read_row(call_.v, b_, kv_, first, count * call_.dv, v);
  } else if (dense && count * call_.dv <= most_together) {
    double* together = Scratch::need(scratch_.together, most_together);
    read_row(call_.v, b_, kv_, first, count * call_.dv, together);
    std::fill(v, v + count * columns_, 0.0);
    for (Index j = 0; j < count; ++j)
      for (Index c = 0; c < call_.dv; ++c) v[j * columns_ + c] = together[j * call_.dv + c];
  } else {
    for (Index j = 0; j < count; ++j) {
      double* row = v + j * columns_;
      read_row(call_.v, b_, kv_, first + j, call_.dv, row);
      std::fill(row + call_.dv, row + columns_, 0.0);
    }
  }
  const products::Extent size = products::magnitudes(v, count * columns_);
  v_top_ = std::max(tile == 0 ? 0.0 : v_top_, size.largest);
  v_finite_ = (tile == 0 || v_finite_) && size.total < infinity;
  if (spreads_) scale_values(tile);
}

void Quick::load(std::span<const RowIndex> rows, const attest_tensor& out, const attest_tensor& lse) {
  const auto count = static_cast<Index>(rows.size());
  if (rows[0].b != b_ || call_.kv_head(rows[0].h) != kv_) {
    b_ = rows[0].b;
    kv_ = call_.kv_head(rows[0].h);
    keys_tile_ = values_tile_ = -1;
  }
  if (std::ssize(rows_) < count) rows_.resize(rows.size());
  if (std::ssize(bits_) < count * groups_) {
    bits_.resize(static_cast<std::size_t>(count * groups_));
    near_.resize(bits_.size());
  }
  double* q = Scratch::need(scratch_.q, count * call_.d);
  double* p = Scratch::need(scratch_.p, count * stride_);
  double top_norm = 0;
  for (Index n = 0; n < count; ++n) {
    State& row = row_at(n);
    row.at = rows[static_cast<std::size_t>(n)];
    row.bounded = row.all = row.lse = row.has_spread = false;
    double* to = q + n * call_.d;
    read_row(call_.q, row.at.b, row.at.h, row.at.i, call_.d, to);
    double square = 0, top = 0;
    for (Index c = 0; c < call_.d; ++c) {
      square += to[c] * to[c];
      top = std::max(top, std::fabs(to[c]));
    }
    row.q_top = top;
    row.q_norm = std::sqrt(square);
    top_norm = std::max(top_norm, row.q_norm);
  }
  for (Index tile = 0; tile < tiles_; ++tile) {
    load_keys(tile);
    for (Index n = 0; n < count; n += 4)
      products::scores(q + n * call_.d, call_.d, std::min<Index>(4, count - n), scratch_.kt.data(), kt_stride_, call_.d,
                       padded(tile_size(tile)), p + n * stride_ + tile * tile_keys_, stride_);
  }
  // One bound for all rows, where it is small.
  top_ = largest_score(top_norm * k_norm_ * (1 + 1e-9), top_norm, 0);
  one_top_ = !call_.has_bias && !top_.overflow() && top_.e < 1e-3;
  // Step by step for all rows: a processor has the next row to work on while the sums of one are folded.
  for (Index n = 0; n < count; ++n) score(n);
  for (Index n = 0; n < count; ++n) weigh(n);
  for (Index n = 0; n < count && spreads_; ++n) square_row(n);

  double* y = Scratch::need(scratch_.y, count * columns_);
  double* reach = Scratch::need(scratch_.reach, count * columns_);
  for (Index tile = 0; tile < tiles_; ++tile) {
    load_values(tile);
    const Index at = tile * tile_keys_;
    for (Index n = 0; n < count; n += 4)
      products::values(p + n * stride_ + at, scratch_.m.data() + n * stride_ + at, stride_,
                       std::min<Index>(4, count - n), scratch_.v.data(), tile_size(tile), columns_, y + n * columns_,
                       reach + n * columns_, tile > 0);
    if (spreads_) add_moments(count, tile);
  }
  std::fill(bits_.begin(), bits_.begin() + count * groups_, std::uint8_t{0});
  for (Index n = 0; n < count; ++n) accept(n, out);
  for (Index n = 0; n < count && attest_present(&lse); ++n) accept_lse(n, lse);
}

// Scores of one row, and whether everything about it is bounded.
void Quick::score(Index n) {
  State& row = row_at(n);
  const Numbers& m = call_.numbers;
  double* z = scratch_.p.data() + n * stride_;
  double* e = Scratch::need(scratch_.d, max_rows_ * stride_) + n * stride_;
  const RowIndex& at = row.at;

  const double* bias = nullptr;
  if (call_.has_bias) {
    double* to = Scratch::need(scratch_.bias, stride_);
    read_row(call_.bias, at.b, at.h, at.i, call_.keys, to);
    std::fill(to + call_.keys, to + stride_, 0.0);
    bias = to;
  }
  const Call::Range range = call_.range(at.b, at.i);
  const double* open = nullptr;
  if (call_.has_keep || range.first > 0 || range.last < call_.keys) {
    double* to = Scratch::need(scratch_.open, stride_);
    std::fill(to, to + stride_, -infinity);
    for (Index j = range.first; j < range.last; ++j)
      if (call_.kept(at.b, at.h, at.i, j)) to[j] = 0;
    open = to;
  }
  const products::ScoreSums sums = products::finish_scores(score_rule_, z, e, bias, open, call_.keys, stride_);
  row.n = sums.n;
  row.z_max = sums.z_max;
  const double* q = scratch_.q.data() + n * call_.d;
  // A NaN in the bias would pass for a key that is not attended.
  const bool bias_is_number = bias == nullptr || std::none_of(bias, bias + call_.keys, [](double x) { return x != x; });
  if (row.n > 0 && k_finite_ && bias_is_number && std::fabs(row.z_max) < infinity) {
    // A bias of -inf under a final softcap is a score of its own: left to the full formulas.
    const bool odd = bias != nullptr && m.softcap > 0 && !m.softcap_before_bias;
    const double top_bias =
        bias == nullptr ? 0 : products::largest_bias_above(z, bias, row.z_max - m.near - 180, stride_);
    if (!odd && one_top_) row.bounded = bound(row, top_);
    if (!odd && !row.bounded) {
      row.bounded = bound(row, largest_score(row.q_norm * k_norm_ * (1 + 1e-9), row.q_norm, top_bias));
      if (!row.bounded && tiles_ == 1)
        row.bounded =
            bound(row, largest_score((1 + 1e-9) * products::largest_absolute_score(q, scratch_.kt.data(), kt_stride_,
                                                                                   call_.d, padded(call_.keys)),
                                     row.q_norm, top_bias));
    }
  }
  if (row.bounded && spreads_) vary(row, n, bias);
}

const Quick::ForCount& Quick::for_count(double n) {
  if (for_count_.n == n) return for_count_;
  const Numbers& m = call_.numbers;
  const double keys = static_cast<double>(call_.keys), r_most = m.rescalings(n, keys, n),
               r = m.arithmetic.key_order == KeyOrder::any ? r_most : m.rescalings(n, keys, 1);
  const double one_exp = m.c_exp * (1 + m.c_exp);
  for_count_ = {
      n, r, r_most, m.merged_a2(n), ln_least(n), ln_most(n), (2 + r) * one_exp, (2 + r_most) * one_exp, std::sqrt(n)};
  return for_count_;
}

// An upper bound of a key's score and of its error.
Score Quick::largest_score(double absolute_score, double query_norm, double top_bias) const {
  const Numbers& m = call_.numbers;
  const double root_d = std::sqrt(m.d), tiny = 1e-153 * root_d;  // what squares may have hidden
  query_norm += tiny;
  absolute_score += tiny * k_norm_ * (1 + 1e-9);
  return score_of(m, {root_d * query_norm, query_norm}, {absolute_score, absolute_score, root_d * k_norm_, k_norm_},
                  std::copysign(top_bias, m.scale));
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
  const ForCount& f = row.f = for_count(row.n);
  const double a2 = f.a2, wrong_shift = m.u_softmax * (m.a1 + a2);
  if (!(wrong_shift * row.z_most <= 80)) return false;
  const double sum_exponent = m.lazy + wrong_shift * row.z_most + f.every_exp_most + f.ln_most +
                              (row.n + f.r_most) * m.kappa * m.u_softmax * (1 + m.u_softmax);
  if (!(sum_exponent < log_overflow_softmax_ - 1e-6)) return false;
  row.d_most = row.e_most +
               m.u_softmax *
                   (m.a1 * row.z_most + a2 * (row.z_most + m.lazy + f.ln_most + 1) + m.a3 * (4 * row.z_most + m.lazy)) +
               f.every_exp_most + m.u_weights;
  if (!(row.d_most < 100)) return false;
  if (!call_.has_bias) return true;
  // Keys further below the maximum than `near` + 180 were left out: their errors, which grow with their bias, must not
  // bring them back.
  const double per_bias = 4 * (m.u_score + m.u_bias + m.u_softmax);
  return per_bias <= 1.0 / 16 && 2 * row.e_most + per_bias * (std::fabs(row.z_max) + row.z_most) < 100;
}

void Quick::weigh(Index n) {
  State& row = row_at(n);
  double* p = scratch_.p.data() + n * stride_;
  double* weights = Scratch::need(scratch_.m, max_rows_ * stride_) + n * stride_;
  if (!row.bounded) {
    std::fill(p, p + stride_, 0.0);
    std::fill(weights, weights + stride_, 0.0);
    return;
  }
  const Numbers& m = call_.numbers;
  const ForCount& f = row.f;
  const double constant = f.every_exp + (sum_rounded_only_ ? m.u_weights : 0);
  const double cap = std::min(0.5, row.d_most);
  const double damping = (1 - cap + cap * cap * (0.5 - cap / 6)) * slack;  // <= e^-cap
  const double t = m.shared_rounding(row.n, f.r, std::fabs(row.z_max)) + (sum_rounded_only_ ? 0 : m.u_weights);
  const products::WeightRule rule{row.z_max, m.u_softmax, m.a1, f.a2, m.a3,   m.lazy + f.ln_least + 1,
                                  m.lazy,    constant,    cap,  t,    damping};
  const products::WeightSums sums = products::weigh(rule, p, scratch_.d.data() + n * stride_, weights, stride_);
  row.mass = sums.mass;
  row.gain = sums.gain / damping;
  const double inverse = 1 / row.mass;
  const double after = m.eta_pv * (4 + (row.n + 2 * f.r + 6) * inverse), before = m.eta_pv * (row.n + 2);
  double absolute = std::max(before_ ? before : 0, before_ && !after_ ? 0 : after);
  // Less what this level's own products may lose to underflow, at most 2^-1037: larger numbers do not notice, and
  // arithmetic with subnormal ones is slow.
  if (!(absolute > 0x1p-900)) absolute -= (row.n * inverse + 2) * 0x1p-1074;
  row.accept = {inverse,
                sums.gain * inverse,
                t,
                (row.n - 1 + f.r) * m.kappa * m.u_softmax + 3 * m.c_div * m.u_final,
                absolute,
                unit_roundoff(format_),
                format_ == Format::f64 ? 0 : half_smallest_subnormal(format_)};
}

void Quick::accept(Index n, const attest_tensor& out) {
  State& row = row_at(n);
  if (!row.bounded || !v_finite_ || !(v_top_ < 1e200)) {
    row.bounded = row.has_spread = false;
    return;
  }
  const RowIndex& at = row.at;
  double* got = Scratch::need(scratch_.got, columns_);
  read_row(out, at.b, at.h, at.i, call_.dv, got);
  std::fill(got + call_.dv, got + columns_, 0.0);
  std::uint8_t* bits = bits_.data() + n * groups_;
  products::accept(row.accept, scratch_.y.data() + n * columns_, scratch_.reach.data() + n * columns_, got, columns_,
                   bits);
  row.all = std::all_of(bits, bits + groups_, [](std::uint8_t set) { return set == 0xff; });
  if (!row.all && tiles_ == 1) look_again(row, n, got);
  if (row.has_spread) {
    row.spread.scale = value_scale_;
    row.sums =
        products::spread(row.spread, scratch_.y.data() + n * columns_, scratch_.first.data() + n * columns_,
                         scratch_.second.data() + n * columns_, got, columns_, call_.dv, near_.data() + n * groups_);
  }
}

void Quick::accept_lse(Index n, const attest_tensor& lse) {
  State& row = row_at(n);
  if (!row.bounded) return;
  const RowIndex& at = row.at;
  const Numbers& m = call_.numbers;
  const double ln_mass = std::log(row.mass), y = row.z_max + ln_mass, a = row.accept.g;
  const bool rounded = m.arithmetic.sum_of_rounded && m.weights_round;
  const double radius =
      slack * (row.gain * row.accept.inverse_mass + a +
               m.u_softmax * ((2 + (m.exp2 ? 3 : 0) + (m.merges ? 3 : 0)) * (std::fabs(row.z_max) + ln_mass + m.lazy) +
                              2 * ln_mass) +
               (rounded && !sum_rounded_only_ ? m.u_weights : 0));  // else d holds it already
  const double value = attest_load(&lse, at.b, at.h, at.i, 0);
  const Format type = lse.dtype.bits == 64 ? Format::f64 : Format::f32;
  row.lse = std::fabs(value) < infinity && value >= round_to(type, y - radius) && value <= round_to(type, y + radius);
}

// Level 2, for the groups of eight columns that hold an element not yet accepted.
void Quick::look_again(State& row, Index n, const double* got) {
  const double* p = scratch_.p.data() + n * stride_;
  double* lo = Scratch::need(scratch_.lo, stride_);
  double* hi = Scratch::need(scratch_.hi, stride_);
  products::box(p, scratch_.d.data() + n * stride_, lo, hi, stride_);
  row.all = true;
  for (Index group = 0; group < groups_; ++group) {
    std::uint8_t& bits = bits_[static_cast<std::size_t>(n * groups_ + group)];
    const Index c = group * lane_count;
    if (bits != 0xff)
      bits = static_cast<std::uint8_t>(bits | products::inside_box(row.accept, p, lo, hi, scratch_.v.data() + c,
                                                                   call_.keys, columns_,
                                                                   scratch_.y.data() + n * columns_ + c, got + c));
    row.all = row.all && bits == 0xff;
  }
}

bool Quick::proves_not_wide(Index n) const {
  const State& row = rows_[static_cast<std::size_t>(n)];
  if (!row.bounded) return false;
  const RowNumbers most{.n = static_cast<Index>(row.n),  // upper bounds of all that section 4 reads
                        .g = row.e_most,
                        .z_top = row.z_most,
                        .z_all = row.z_most,
                        .ln_n = row.f.ln_most,
                        .r = row.f.r_most,
                        .a2 = row.f.a2,
                        .every_exp = row.d_most,
                        .mass = row.n,
                        .rho = std::exp(row.e_most + row.d_most)};
  const double reach = largest_reach(call_, most, v_top_) + (2 * growth(2 * row.d_most) + 1e-40) * v_top_;
  const double* p = scratch_.p.data() + n * stride_;
  for (Index c = 0; c < std::min<Index>(call_.dv, lane_count); ++c) {
    if (!accepts(n, c)) continue;
    if (row.n == 1) return true;  // the hull is a point
    const double y = scratch_.y[static_cast<std::size_t>(n * columns_ + c)];
    bool all_equal = true;
    const double first = attest_load(&call_.v, b_, kv_, 0, c);
    for (Index j = 0; j < call_.keys; ++j) {
      const double v = attest_load(&call_.v, b_, kv_, j, c);
      all_equal = all_equal && v == first;
      if (p[j] > 0 && std::fabs(v - y) > reach) return true;
    }
    if (all_equal) return true;
  }
  return false;
}

}  // namespace attest::oracle
