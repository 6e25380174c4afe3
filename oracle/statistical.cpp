#include "oracle/statistical.hpp"

#include <algorithm>
#include <cmath>

#include "oracle/lanes.hpp"
#include "oracle/least.hpp"
#include "oracle/sum_drift.hpp"

namespace attest::oracle {
namespace {

constexpr double smallest_double = 0x1p-1022;  // the reference takes smaller weights for 0
constexpr double lost_squares = 0x1p-500;      // of the largest value: what squares of smaller terms lose to underflow
constexpr double most_below = std::numeric_limits<double>::max();
constexpr double most_tau = 1e150;  // whose square is finite

// Whether keys share errors of the query.
bool shares_factors(const Numbers& m) { return m.scaled_queries || m.operand_rounds; }

// How far off tanh may be one way, beyond the rounding of its result, relatively.
double one_sided_tanh(const Numbers& m) { return 2 * m.arithmetic.tanh_ulp * m.u_cap; }

// Of a number, or of each of eight.
double magnitude(double x) { return std::fabs(x); }
ATTEST_LANE_FN Lanes magnitude(const Lanes& x) { return abs(x); }
double larger(double a, double b) { return std::max(a, b); }
ATTEST_LANE_FN Lanes larger(const Lanes& a, const Lanes& b) { return max(b, a); }
double below_or_nothing(double x, double limit) { return x < limit ? x : 0; }
ATTEST_LANE_FN Lanes below_or_nothing(const Lanes& x, const Lanes& limit) { return zero_unless(x < limit, x); }

std::vector<Index> sorted_by(const std::vector<double>& key, std::size_t n) {
  std::vector<Index> order(n);
  std::iota(order.begin(), order.end(), Index{0});
  const auto of = [&](Index t) { return key[static_cast<std::size_t>(t)]; };
  std::sort(order.begin(), order.end(), [&](Index a, Index b) { return of(a) != of(b) ? of(a) < of(b) : a < b; });
  return order;
}

}  // namespace

std::string_view statistical_refusal(const Contract& contract) {
  if (contract.arithmetic.kappa > 1) return "accumulators may truncate (kappa above 1), so that errors point one way";
  if (contract.arithmetic.mma)
    return "accumulators are those of tensor cores (mma), which cut, so that errors point one way";
  if (contract.arithmetic.order_by_values)
    return "the order of sums looks at values (order), so that errors may point one way";
  if (contract.arithmetic.flush_to_zero) return "subnormals are flushed to zero, so that errors point one way";
  return {};
}

// Of ln of one key's weight.
double RowSpread::own_variance(const Call& call, const Row& row, const KeyScore& key) const {
  const Numbers& m = call.numbers;
  const double s = std::fabs(key.s), z = key.z, below = std::min(row.z_max - z, most_below);
  const double sum =
      std::max((m.d + 1) * (square(m.u_acc * key.norm) / 6 + square(m.u_acc * s) / 3), square(m.u_acc * key.prefixes));
  double variance = (sum + (m.inexact_qk ? square(m.u_acc * key.norm) : 0)) / 3 + m.d * square(m.eta_acc * m.mu) +
                    (square(m.u_score * s) + m.scalings * square(m.u_scale * s)) / 3;
  // Among subnormals the scaled and the stored score are off by up to eta, and by all of itself where it becomes 0: always the same way.
  if (m.u_score * s < m.eta_score) variance += square(std::min(m.eta_score, s));
  if (m.u_scale * s < m.eta_scale) variance += square(std::min(m.eta_scale, s));
  // A power of two as the scale makes ties of subnormals: errors of all of eta, or of 0.
  if (m.scaled_keys)
    variance += 2 * square(m.u_scale * key.norm) / 3 + square(m.eta_scale * query_norm_) +
                square(m.u_entered * key.norm) / 3 + square(m.eta_entering * query_norm_);
  if (m.operand_rounds) variance += square(m.u_operand * key.norm) / 3 + square(m.eta_operand * m.mu * query_norm_);
  if (m.softcap > 0) {
    // s and c are converted and divided; then tanh, whose result is at most its argument and at most 1.
    const double argument = m.softcap_before_bias ? s : std::fabs(key.s + key.bias);
    variance =
        std::min(variance + square(m.u_cap * argument) + square(m.eta_cap * (1 + m.softcap)), square(0.5 * m.softcap));
    const double capped =
        m.tanh_absolute > 0 ? m.tanh_absolute * m.softcap : m.tanh_relative * std::min(m.softcap, argument);
    // Nothing makes noise of a function's error: two keys of one score may be off by all of it, to either side.
    variance += square(capped) + square(m.tanh_underflow * m.softcap) + square(m.eta_cap * (1 + m.softcap));
  }
  if (call.has_bias || m.softcap > 0) variance += 2 * square(m.u_score * z) / 3 + m.of_bias() * square(key.bias);
  variance += (1 + m.a1) * square(m.u_softmax * z) / 3 + m.of_below * square(m.u_softmax * below) +
              square(m.c_exp) / 3 * (1 + rescales_);
  // The reference's own error.
  return variance + (m.d + 8) * square(unit64 * key.norm) + square(unit64 * s) + square(unit64 * z) +
         square(unit64 * below);
}

void RowSpread::evaluate(const Call& call, const Row& row, Index b, Index h, Index i) {
  evaluate_weights(call, row, b, h, i);
  evaluate_sums(call, row);
}

void RowSpread::evaluate_weights(const Call& call, const Row& row, Index b, Index h, Index i) {
  const Numbers& m = call.numbers;
  widened_by_ = -1;
  knows_sums_ = false;
  const auto n = static_cast<std::size_t>(row.n);
  const auto stride = static_cast<std::size_t>(padded(call.d));
  constexpr std::size_t some = lane_count;
  const bool keeps_keys = shares_factors(m);
  query_.assign(stride, 0);
  keys_.resize((keeps_keys ? n : some) * stride);
  read_row(call.q, b, h, i, call.d, query_.data());
  query_norm_ = norm(query_);

  const auto first = row.z.begin(), last = first + row.n;
  const auto backward = std::make_reverse_iterator(last), end = std::make_reverse_iterator(first);
  rescales_ = 2 + std::max(records(first, last, row.p.begin()).count, records(backward, end, row.p.begin()).count);
  tau.assign(row.p.size(), 0);
  tau1.assign(row.p.size(), 0);
  for (std::vector<double>* of_keys : {&raw_, &bias_, &capped_}) of_keys->assign(n, 0);
  // Eight keys at a time, whose products lie beside each other.
  const auto width = static_cast<std::size_t>(call.d);
  products_.resize(width * some);
  std::array<Prefixes, lane_count> sums_of;
  double largest_tau = 0;
  for (std::size_t t = 0; t < n; ++t) {
    double* const key = keys_.data() + (keeps_keys ? t : t % some) * stride;
    if (t % some == 0) {
      const std::size_t count = std::min(some, n - t);
      if (count < some) std::fill(products_.begin(), products_.end(), 0);
      for (std::size_t k = 0; k < count; ++k) {
        double* const one = key + k * stride;
        read_row(call.k, b, call.kv_head(h), row.keys[t + k], call.d, one);
        std::fill(one + width, one + stride, 0.0);
      }
      std::array<double, some> qk{};  // beside each other, so that no sum waits for itself
      for (std::size_t c = 0; c < width; ++c)
        for (std::size_t k = 0; k < count; ++k)
          qk[k] += products_[c * some + k] = query_[c] * key[k * stride + c] * m.scale;
      for (std::size_t k = 0; k < count; ++k) raw_[t + k] = qk[k];
      prefixes_of_eight(products_.data(), width, sums_of);
    }
    const double qk = raw_[t];
    const Prefixes& sums = sums_of[t % some];
    bias_[t] = call.has_bias ? attest_load(&call.bias, b, h, i, row.keys[t]) : 0;
    capped_[t] = m.softcap_before_bias ? qk : qk + bias_[t];
    const KeyScore score{row.z[t], qk, std::sqrt(sums.squares), std::sqrt(sums.prefix_squares), bias_[t]};
    tau[t] = std::sqrt(own_variance(call, row, score));
    if (!(tau[t] < most_tau)) tau[t] = most_tau;
    if (m.scaled_queries)
      tau1[t] = (m.u_scale * std::sqrt(2.0) + m.u_entered) * score.norm / std::sqrt(3.0) +
                (m.eta_scale + m.eta_entering) * norm({key, stride}) / std::sqrt(3.0);
    if (m.operand_rounds)
      tau1[t] += (m.u_operand * score.norm + m.eta_operand * m.mu * norm({key, stride})) / std::sqrt(3.0);
    tau1[t] = std::min(tau1[t] + m.u_softmax * row.a2 * row.z_top / std::sqrt(3.0), most_tau);
    largest_tau = std::max(largest_tau, tau[t] + tau1[t]);
  }
  by_box = !(largest_tau <= linear_limit);
  undivided_ = undivided_error(m, row);
  const double roundings = static_cast<double>(row.n) + rescales_;
  normalises_first_ = m.arithmetic.divides_first();
  relative_rounding_ = m.u_weights + (roundings + 2) * m.u_pv + roundings * m.u_softmax + 3 * m.c_div * m.u_final +
                       m.u_partial + (normalises_first_ ? m.c_div * m.u_softmax : 0);
  applies = undivided_.roundings + undivided_.one_sided <= largest_undivided;
}

void RowSpread::evaluate_sums(const Call& call, const Row& row) {
  if (knows_sums_) return;
  knows_sums_ = true;
  const Numbers& m = call.numbers;
  const auto n = static_cast<std::size_t>(row.n);
  const double roundings = static_cast<double>(row.n) + rescales_;
  order_ = sorted_by(row.z, n);
  if (m.softcap > 0) by_capped_ = sorted_by(capped_, n);

  const Prefixes weights = prefixes({row.p.data(), n});
  weight_unit_ = normalises_first_ ? 1 : row.mass;
  const double weight_noise = 2 * (m.c_exp + (std::sqrt(roundings) + 2) * m.u_softmax);  // of exp and of the sum
  // The largest weight is 1 but for a rounded shift, where underflows then count for more.
  const double shift_error = 2 * m.u_softmax * row.z_top;
  shortfall_ = shift_error < 0.01 ? 1 : std::exp(bounded(shift_error));
  sort_into_bins(m, row, weight_noise);
  smallest_weight_ = 2 * m.eta_weights * shortfall_;
  if (m.weights_round) find_weight_roundings(m, row);
  some_underflow_ = false;
  for (std::size_t t = 0; m.exp_of_nothing && t < n && !some_underflow_; ++t)
    some_underflow_ = may_underflow(m, row, t);
  weight_squares_ = weights.squares;
  weight_prefixes_ = weights.prefix_squares;
  // Sums of ones are exact while they are integers of the format. Weights are ones where every score is the maximum itself,
  // unless an exp2 of a fused multiply-add sees the rounding of the maximum times log2 e.
  const auto [least, most] = std::minmax_element(row.z.begin(), row.z.begin() + row.n);
  const bool ones = *least == *most && m.lazy == 0 && !(m.exp2 && *most != 0);
  const bool exact = ones && static_cast<double>(row.n) * m.u_softmax <= 1;
  sum_drift_ = exact ? 0 : drift_of_sum(row.p, row.mass, 1, row.mass, m.u_softmax, 6) / row.mass;
  sum_coherence_ = exact ? 1 : coherence({row.p.begin(), row.p.begin() + row.n}, 2 * m.u_softmax);
}

// Relative errors of weights that no division by their own sum takes back: exp(lse_i - lse) of merged splits, exp(z -
// lse), and the merges of a chain. At their largest (docs/bounds.md, section 4).
RowSpread::Undivided RowSpread::undivided_error(const Numbers& m, const Row& row) const {
  const double n = static_cast<double>(row.n);
  double all = m.with_merges(0, n, row.z_top), one_sided = m.one_sided_merges(n);
  if (m.arithmetic.normalise_lse) {
    all += m.u_softmax * ((2 + (m.exp2 ? 4 : 0)) * (row.z_top + m.lazy + row.ln_n + 1) + m.a3 * (row.ln_n + 1)) +
           (1 + rescales_) * m.c_exp;
    one_sided += (1 + rescales_) * m.one_sided_exp;
  }
  return {all - one_sided, one_sided};
}

// Bins of keys whose scores lie no further above the least of them, t, than width(t).
template <class Width>
void RowSpread::sort_into(Bins& bins, const Row& row, const Width& width) const {
  const auto key = [&](std::size_t at) { return static_cast<std::size_t>(order_[at]); };
  bins.ends.clear();
  bins.more.clear();
  std::size_t first = key(0);
  double most = width(first);
  for (std::size_t at = 0; at < order_.size(); ++at) {
    if (!(row.z[key(at)] - row.z[first] > most)) continue;
    bins.ends.push_back(static_cast<Index>(at));
    first = key(at);
    most = width(first);
  }
  bins.ends.push_back(row.n);
}

// Keys whose scores are as good as equal have weights that round alike. Among subnormals, whose ulp is a larger share of them, so have
// others.
void RowSpread::sort_into_bins(const Numbers& m, const Row& row, double weight_noise) {
  const double alike = m.u_weights > 0 ? m.u_weights / 2 : 8 * m.u_softmax;
  const auto grid_at = [&](std::size_t t, double eta, double size) {
    const double number = row.p[t] * size;
    return number > 0 ? std::max(alike, eta / number / 2) : alike;
  };
  sort_into(of_scores_, row, [&](std::size_t) { return alike; });
  sort_into(of_exps_, row, [&](std::size_t t) { return grid_at(t, row.rescaled * shortfall_, row.mass); });
  if (m.weights_round) {
    sort_into(of_weights_, row, [&](std::size_t t) { return grid_at(t, m.eta_weights * shortfall_, weight_unit_); });
    find_midpoints(row, {m.u_weights, m.eta_weights, weight_unit_}, weight_noise, of_weights_);
  }
  if (normalises_first_) {
    sort_into(of_quotients_, row, [&](std::size_t t) { return grid_at(t, m.eta_softmax, 1); });
    if (m.division_noise() > 1) find_midpoints(row, {m.u_softmax, m.eta_softmax, 1}, weight_noise, of_quotients_);
  }
}

// A rounded score lies on a grid, and so do the weights of a row of large scores: where its steps come to about whole numbers of their
// ulps, weight after weight rounds the same way, by up to half a step where an ulp is more. A bias of -10^4 for each key makes steps of 2^-10
// in f32, two ulps of weights in f16.
void RowSpread::find_weight_roundings(const Numbers& m, const Row& row) {
  const auto n = static_cast<std::size_t>(row.n);
  weight_rounding_.assign(n, 0);
  weight_step_.assign(n, 0);
  for (std::size_t t = 0; t < n; ++t) {
    const double weight = row.p[t] * weight_unit_;
    if (weight < smallest_weight_) continue;  // lost: part of the bias
    weight_rounding_[t] = std::min(std::max(m.u_weights, m.eta_weights * shortfall_ / weight) / std::sqrt(3.0), 1.0);
    const double half_step =
        m.u_softmax * std::fabs(row.z[t]) + m.u_score * std::max(std::fabs(row.z[t]), std::fabs(raw_[t]));
    weight_step_[t] = std::min(half_step / std::sqrt(3.0), weight_rounding_[t]);
  }
}

template <class Number>
Number RowSpread::Terms<Number>::at(const double* terms, std::size_t t) {
  if constexpr (std::is_same_v<Number, double>)
    return terms[t];
  else
    return load(terms + t * lane_count);
}

RowSpread::Terms<double> RowSpread::terms_of(const Element& e) {
  return {e.v.data(), e.moved.data(), e.carried.data(), e.y};
}

// The variance of errors of size term(t), independent but in a bin, where they may be anything between independent and alike;
// times `more`, if given: what a bin's variance is more.
template <class Number, class Term>
Number RowSpread::binned(std::span<const Index> ends, std::span<const double> more, Term&& term) const {
  Number variance = 0.0;
  Index at = 0;
  for (std::size_t bin = 0; bin < ends.size(); ++bin) {
    Number total = 0.0, squares = 0.0;
    for (; at < ends[bin]; ++at) {
      const Number x = term(static_cast<std::size_t>(order_[static_cast<std::size_t>(at)]));
      total += x;
      squares += x * x;
    }
    variance += larger(squares, total * total) * (more.empty() ? 1 : more[bin]);
  }
  return variance;
}

// How much more the variance of roundings is in each bin: in one whose weights lie about a midpoint of two neighbours each is off
// by half an ulp, to either side, three times the variance of errors that may be anything. Weights near 1/255 are such in bf16.
void RowSpread::find_midpoints(const Row& row, const Grid& grid, double weight_noise, Bins& bins) const {
  const auto key = [&](Index at) { return static_cast<std::size_t>(order_[static_cast<std::size_t>(at)]); };
  bins.more.assign(bins.ends.size(), 1);
  Index first = 0;
  for (std::size_t bin = 0; bin < bins.ends.size(); first = bins.ends[bin++]) {
    const Index end = bins.ends[bin];
    if (end - first < 2) continue;
    const double low = row.p[key(first)] * grid.size, high = row.p[key(end - 1)] * grid.size, centre = (low + high) / 2;
    if (!(low > 0)) continue;
    const double ulp = 2 * std::max(grid.unit * std::exp2(std::ilogb(centre)), grid.tiny);
    // Errors of scores, of exp and of the sum move them.
    double noise = 0;
    for (Index at = first; at < end; ++at) noise = std::max(noise, tau[key(at)] + tau1[key(at)]);
    const double reach = (high - low) / 2 + high * (4 * noise + weight_noise);
    const double off = std::fabs(centre - (std::floor(centre / ulp) + 0.5) * ulp);
    if (reach < 0.25 * ulp && off <= reach) bins.more[bin] = 3;
  }
}

// What every key's own score and weight contribute.
template <class Number>
Number RowSpread::of_scores_and_weights(const Numbers& m, const Row& row, const Terms<Number>& e) const {
  Number variance = binned<Number>(of_scores_.ends, {}, [&](std::size_t t) { return e.at(e.moved, t) * tau[t]; });
  if (m.weights_round) {
    variance += binned<Number>(of_weights_.ends, of_weights_.more,
                               [&](std::size_t t) { return e.at(e.carried, t) * weight_rounding_[t]; });
    Number in_step = 0.0;
    for (std::size_t t = 0; t < weight_step_.size(); ++t) in_step += e.at(e.carried, t) * weight_step_[t];
    variance += in_step * in_step;
  }
  // Quotients round one by one, those of equal weights alike.
  if (normalises_first_)
    variance += binned<Number>(of_quotients_.ends, of_quotients_.more, [&](std::size_t t) {
      return e.at(e.carried, t) * m.c_div * m.u_softmax / std::sqrt(m.division_noise());
    });
  // Weights that underflow in the softmax format: as results of exp, and once they are normalised. Far below they are 0,
  // unless an exp that may be off by a whole ulp, or a poor division, makes subnormals of them.
  const double underflow = row.rescaled * shortfall_;
  const double least_weight = m.arithmetic.exp_ulp >= 1 ? 0 : m.eta_softmax / 64;
  const double least_share = m.arithmetic.div_ulp > 0.5 ? 0 : m.eta_softmax / 64;
  variance += binned<Number>(of_exps_.ends, {}, [&](std::size_t t) -> Number {
    if (row.p[t] * row.mass < least_weight) return 0.0;
    return underflow / row.mass / std::sqrt(3.0) * (e.at(e.v, t) - e.y);
  });
  if (normalises_first_)
    variance += binned<Number>(of_quotients_.ends, {}, [&](std::size_t t) -> Number {
      if (row.p[t] < least_share) return 0.0;
      return m.eta_quotient() / std::sqrt(m.division_noise()) * e.at(e.v, t);
    });
  return variance;
}

template <class Number>
RowSpread::KeySums<Number> RowSpread::over_keys(const Numbers& m, const Row& row, const Terms<Number>& e,
                                                const Number& largest) const {
  Number covariance = 0.0, scaled = 0.0, capped = 0.0, biased = 0.0;
  const auto n = static_cast<std::size_t>(row.n);
  for (std::size_t t = 0; t < n; ++t) {
    const Number moved = e.at(e.moved, t);
    covariance += std::min(row.z_max - row.z[t], most_below) * moved;
    scaled += moved * std::clamp(raw_[t], -most_below, most_below);
    capped += moved * std::clamp(row.z[t], -most_below, most_below);
    if (std::isfinite(bias_[t])) biased += moved * bias_[t];
  }
  return {covariance, scaled, capped, biased, of_scores_and_weights(m, row, e), stagnation(m, row, e, largest)};
}

// Errors that keys have in common: those of q as it is scaled or enters, and of a tile's or split's shift.
double RowSpread::of_shared_factors(const Numbers& m, const Row& row, const Element& e,
                                    const KeySums<double>& sums) const {
  double variance = 0;
  if (shares_factors(m)) {
    const double scaling = m.scaled_queries ? 2 * square(m.u_scale) + square(m.u_entered) : 0;
    const double tiny = m.scaled_queries ? square(m.eta_scale) * m.mu + square(m.eta_entering) : 0;
    const double relative = std::sqrt((scaling + square(m.u_operand)) / 3) * m.scale;
    const double absolute = std::sqrt(tiny + square(m.operand_rounds ? m.eta_operand * m.mu : 0));
    const std::size_t stride = query_.size();
    std::vector<double> covariance(stride, 0);
    for (std::size_t t = 0; t < e.moved.size(); ++t)
      for (std::size_t c = 0; c < stride; ++c) covariance[c] += e.moved[t] * keys_[t * stride + c];
    for (std::size_t c = 0; c < stride; ++c)
      variance += square(covariance[c] * relative * query_[c]) + square(covariance[c] * absolute);
  }
  // The rounded scale, with two square roots of it, the softcap, and the log2 e that a bias is brought to.
  const double scaled = sums.scaled, capped = sums.capped, biased = sums.biased;
  const double roundings = m.shared_scalings + (m.arithmetic.fold_sqrt && m.scale > 0 ? 2 : 0);
  variance += square(std::min(roundings * m.u_scale * std::fabs(scaled), most_tau)) / 3;
  // A scale that is subnormal in its format is off by up to all of itself, the same way in every row.
  if (const double lost = std::min(m.scale_underflow, 1.0); lost > m.u_scale)
    variance += square(std::min(lost * std::fabs(scaled), most_tau));
  if (m.u_bias_unit > 0) variance += square(std::min(m.u_scale * std::fabs(biased), most_tau)) / 3;
  if (m.softcap > 0) variance += square(std::min(m.u_cap * (2 * std::fabs(scaled) + std::fabs(capped)), most_tau)) / 3;
  const double shift = std::min(m.u_softmax * row.a2 * row.z_top, most_tau);
  if (row.a2 > 0) variance += square(shift) / 3 * largest_block_squares(e.moved);
  // An exp that is off the same way wherever it rescales.
  const auto first = row.z.begin(), last = first + row.n;
  const auto backward = std::make_reverse_iterator(last), end = std::make_reverse_iterator(first);
  const double rescaled =
      std::max(records(first, last, e.moved.begin()).rescaled, records(backward, end, e.moved.rbegin()).rescaled);
  variance += square(m.c_exp * rescaled) / 3;
  return variance;
}

// The sum of weighted values, the sum of weights, and what turns them into an output.
double RowSpread::of_sums(const Numbers& m, const Row& row, const Element& e, const Prefixes& values) const {
  const double n = static_cast<double>(row.n), y2 = square(e.y);
  const double alike = coherence(e.carried, 2 * std::max(m.u_pv * values.largest, m.eta_pv * e.unit));
  const double additions = std::max((n + 1) * (values.squares / 6 + y2 / 3), values.prefix_squares);
  const double sum_additions = std::max((n + 1) * (weight_squares_ / 6 + 1.0 / 3), weight_prefixes_);
  double variance =
      square(m.u_pv) / 3 * (additions * alike + rescales_ * y2 + (m.inexact_pv ? values.squares * alike : 0)) +
      n * square(m.eta_pv * shortfall_ * e.unit) * alike;
  variance += square(m.u_softmax) / 3 * (sum_additions * sum_coherence_ + rescales_) * y2;
  variance += square(m.c_div * m.u_final) * y2 + square(m.c_div * m.eta_pv * e.unit);
  if (m.merges) variance += square(m.eta_partial * e.unit);
  return variance + square(unit64 * e.carried_total) * (n + 8);  // the reference's own
}

// What sums lose because a term is below an ulp of the running sum, and weights that may be lost altogether.
template <class Number>
Number RowSpread::stagnation(const Numbers& m, const Row& row, const Terms<Number>& e, const Number& largest) const {
  const Number value_ulp = m.u_pv * largest, mean = magnitude(e.y);
  Number bias = lost_squares * static_cast<double>(row.n);
  const auto n = static_cast<std::size_t>(row.n);
  for (std::size_t t = 0; t < n; ++t) {
    const Number size = magnitude(e.at(e.carried, t));
    if (m.weights_round && row.p[t] * weight_unit_ < smallest_weight_) bias += size;
    if (may_underflow(m, row, t)) bias += magnitude(e.at(e.moved, t));
    if (normalises_first_ && row.p[t] < 2 * m.eta_softmax) bias += size;
    if (row.p[t] == 0 && row.z_max - row.z[t] < 746) bias += smallest_double / row.mass * magnitude(e.at(e.v, t) - e.y);
    bias += below_or_nothing(size, value_ulp);
    if (row.p[t] < m.u_softmax) bias += row.p[t] * mean;
  }
  return bias;
}

// Whether exp, or a rescaling, may make 0 of a weight.
bool RowSpread::may_underflow(const Numbers& m, const Row& row, std::size_t t) const {
  return row.p[t] * row.mass < 2 * m.eps_lazy * shortfall_;
}

// What functions and poor divisions add that are off one way, or one way up to some argument and the other beyond: no noise, and
// at most this.
double RowSpread::of_one_sided_functions(const Numbers& m, const Row& row, const Element& e) const {
  double bias = m.one_sided_exp * one_sided(e.moved, order_, row.z) + undivided_.one_sided * e.carried_total;
  // Or a number of nothing.
  if (some_underflow_) {
    std::vector<double> moved(e.v.size(), 0);
    for (std::size_t t = 0; t < moved.size(); ++t)
      if (may_underflow(m, row, t)) moved[t] = row.rescaled * shortfall_ / row.mass * (e.v[t] - e.y);
    bias += one_sided(moved, order_, row.z);
  }
  if (m.division_excess() > 0) {
    // Among subnormals, where an ulp is no longer a share of the quotient: of results, and of a split's before they are merged, ...
    bias += (m.split_quotients(static_cast<double>(row.n)) + 1) * m.division_excess() * m.eta_pv * e.unit;
    // ... and of weights.
    if (normalises_first_) {
      std::vector<double> quotients(e.v.size());
      for (std::size_t t = 0; t < quotients.size(); ++t)
        quotients[t] = m.division_excess() * (m.u_softmax * e.carried[t] + m.eta_softmax * e.v[t]);
      bias += one_sided(quotients, order_, row.z);
    }
  }
  if (m.softcap > 0) {
    const bool absolute = m.arithmetic.tanh == TanhError::absolute;
    const double off = one_sided_tanh(m);
    std::vector<double> moved = e.moved;
    for (std::size_t t = 0; t < moved.size(); ++t)
      moved[t] *= absolute ? off * m.softcap
                           : std::max(off * std::min(m.softcap, std::fabs(capped_[t])),
                                      m.tanh_underflow * m.softcap);  // in ulps, also where they are subnormal
    bias += one_sided_or_split(std::move(moved), by_capped_, capped_);
  }
  return bias;
}

// Values in units in which their squares neither over- nor underflow.
void RowSpread::element(const Row& row, std::span<const double> values, double unit, double y, Element& e) {
  const auto n = static_cast<std::size_t>(row.n);
  e.v.assign(values.begin(), values.begin() + row.n);
  e.unit = unit;
  e.carried_total = 0;
  double top = 0;
  for (const double v : e.v) top = std::max(top, std::fabs(v));
  const int exponent = top > 0 ? std::min(-std::ilogb(top), 700) : 0;
  const double power = std::ldexp(1.0, exponent);  // exact, so that a product with it is rounded as ldexp() is
  for (double& v : e.v) v *= power;
  e.y = y * e.unit * power;
  e.unit *= power;
  e.carried.resize(n);
  e.moved.resize(n);
  for (std::size_t t = 0; t < n; ++t) {
    e.carried[t] = row.p[t] * e.v[t];
    e.carried_total += std::fabs(e.carried[t]);
    e.moved[t] = row.p[t] * (e.v[t] - e.y);
  }
}

RowSpread::Element RowSpread::element(const Row& row, std::span<const double> values, double unit, double y) {
  Element e;
  element(row, values, unit, y, e);
  return e;
}

// What v loses as it enters a narrower product: known, and the same in every kernel that rounds it.
double RowSpread::lost_operands(const Call& call, const Row& row, const Element& e) const {
  if (!call.numbers.operand_rounds) return 0;
  const Format operand = call.contract->policy[Stage::operand];
  double lost = 0;
  for (std::size_t t = 0; t < e.v.size(); ++t)
    lost += row.p[t] * (round_to(operand, e.v[t] / e.unit) * e.unit - e.v[t]);
  return std::fabs(lost);
}

RowSpread::Element RowSpread::element(const Row& row, const Column& column, double y) {
  return element(row, column.values(), column.unit(), y);
}
void RowSpread::element(const Row& row, const Column& column, double y, Element& to) {
  element(row, column.values(), column.unit(), y, to);
}

Spread RowSpread::of(const Call& call, const Row& row, std::span<const double> values, double y) const {
  return of(call, row, element(row, values, 1, y));
}

RowSpread::Own RowSpread::own_sums(const Call& call, const Row& row, std::span<const double> values, double y) const {
  const Numbers& m = call.numbers;
  const Element e = element(row, values, 1, y);
  const Prefixes sums = prefixes(e.carried);
  double variance = of_sums(m, row, e, sums);
  if (m.merges)
    variance += square((m.u_partial + 2 * m.c_div * m.u_final) *
                           std::sqrt(largest_block_squares(e.carried) / m.division_noise()) +
                       m.c_div * m.u_final * std::fabs(e.y));
  return {variance / square(e.unit), stagnation(m, row, terms_of(e), sums.largest) / e.unit};
}

Spread RowSpread::of(const Call& call, const Row& row, const Element& e) const {
  const Prefixes values = prefixes(e.carried);
  return of(call, row, e, values, over_keys<double>(call.numbers, row, terms_of(e), values.largest));
}

void RowSpread::of(const Call& call, const Row& row, std::span<const Element> elements, std::span<Spread> spreads) {
  constexpr std::size_t some = lane_count;
  if (elements.size() < some / 2) {
    for (std::size_t k = 0; k < elements.size(); ++k) spreads[k] = of(call, row, elements[k]);
    return;
  }
  const auto n = static_cast<std::size_t>(row.n), all = n * some;
  together_.resize(3 * all);
  double *const v = together_.data(), *const moved = v + all, *const carried = moved + all;
  double y[some], largest[some];
  for (std::size_t k = 0; k < some; ++k) {
    const Element& e = elements[std::min(k, elements.size() - 1)];  // what is left of the lanes counts for nothing
    for (std::size_t t = 0; t < n; ++t) {
      v[t * some + k] = e.v[t];
      moved[t * some + k] = e.moved[t];
      carried[t * some + k] = e.carried[t];
    }
    y[k] = e.y;
  }
  std::array<Prefixes, lane_count> values;
  prefixes_of_eight(carried, n, values, Largest::wanted);
  for (std::size_t k = 0; k < some; ++k) largest[k] = values[k].largest;
  const KeySums<Lanes> sums = over_keys<Lanes>(call.numbers, row, {v, moved, carried, load(y)}, load(largest));
  for (std::size_t k = 0; k < elements.size(); ++k) {
    const int lane = static_cast<int>(k);
    spreads[k] = of(call, row, elements[k], values[k],
                    {sums.covariance[lane], sums.scaled[lane], sums.capped[lane], sums.biased[lane],
                     sums.variance[lane], sums.stagnation[lane]});
  }
}

Spread RowSpread::of(const Call& call, const Row& row, const Element& e, const Prefixes& values,
                     const KeySums<double>& sums) const {
  const Numbers& m = call.numbers;
  double s = std::sqrt(sums.variance + of_shared_factors(m, row, e, sums) + of_sums(m, row, e, values));
  s += 3 * m.u_softmax * std::fabs(sums.covariance) + undivided_.roundings * e.carried_total / std::sqrt(3.0);
  if (m.merges)
    s += (m.u_partial + 2 * m.c_div * m.u_final) * std::sqrt(largest_block_squares(e.carried) / m.division_noise()) +
         m.c_div * m.u_final * std::fabs(e.y);
  const double bias =
      sums.stagnation + sum_drift_ * std::fabs(e.y) + of_one_sided_functions(m, row, e) + lost_operands(call, row, e);
  return {s / e.unit, bias / e.unit};
}

void RowSpread::widen(const Row& row, double lambda) {
  if (widened_by_ == lambda) return;
  widened_by_ = lambda;
  width_.resize(tau.size());
  for (std::size_t t = 0; t < tau.size(); ++t) width_[t] = lambda * (tau[t] + tau1[t]);
  row.fill_box(box_, width_, 0);
}

RowSpread::Interval RowSpread::interval(const Row& row, const Column& column, double y, Spread spread, double lambda) {
  const double radius = spread_margin * lambda * spread.s + spread.bias;
  if (!by_box) return {y - radius, y + radius};
  widen(row, lambda);
  const double unit = column.unit();
  const double lo = column.box_extreme(box_, y * unit, -1) / unit, hi = column.box_extreme(box_, y * unit, 1) / unit;
  // s is what a mean of y's size is off by: those at the ends may be larger by orders of magnitude.
  const double reach = radius + std::min(lambda, 1.0) * relative_rounding_ * std::max(std::fabs(lo), std::fabs(hi));
  return {lo - reach, hi + reach};
}

bool RowSpread::surely_holds(const Call& call, const Row& row, const Column& column, double lambda,
                             const Rounding& round, double got) {
  const std::span<const double> v = column.values();
  const double unit = column.unit();
  Lanes mean = fill(0), products = mean, size = mean;
  for (std::size_t t = 0; t < v.size(); t += lane_count) {
    const Lanes carried = load(&row.p[t]) * load(&v[t]);
    mean += carried;
    products += carried * carried;
    size += abs(carried);
  }
  const double y = sum(mean);
  if (round(y / unit) == got) return true;  // at 0 already
  if (by_box) {
    // Means that the weights surely have somewhere in the box: those that are heavy on one side of `got`.
    constexpr double margin = 1e-10;  // more than they, or the extremes, may be off by
    widen(row, lambda);
    const double at = got * unit;
    Lanes above = fill(0), below = above, weight_above = above, weight_below = above, reach = above;
    for (std::size_t t = 0; t < v.size(); t += lane_count) {
      const Lanes away = load(&v[t]) - at, lo = load(&box_.lo[t]), hi = load(&box_.hi[t]);
      const Lanes heavy_above = select(away > fill(0), hi, lo), heavy_below = select(away > fill(0), lo, hi);
      above += heavy_above * away;
      below += heavy_below * away;
      weight_above += heavy_above;
      weight_below += heavy_below;
      reach += hi * (abs(away) + std::fabs(at));
    }
    const double heavy = sum(weight_above), light = sum(weight_below), off = margin * sum(reach);
    if (!(heavy > 0 && light > 0)) return false;
    const double hi = std::max(y, at + (sum(above) - off) / heavy), lo = std::min(y, at + (sum(below) + off) / light);
    return round(lo / unit) <= got && got <= round(hi / unit);
  }
  // s is at least what every key's own error, the sums and the quotient come to, were no two errors alike.
  Lanes moved = fill(0);
  for (std::size_t t = 0; t < v.size(); t += lane_count) {
    const Lanes error = load(&row.p[t]) * (load(&v[t]) - y) * load(&tau[t]);
    moved += error * error;
  }
  const Numbers& m = call.numbers;
  const double n = static_cast<double>(row.n), y2 = square(y);
  const double variance = sum(moved) + square(m.u_pv) / 3 * (n + 1) * (sum(products) / 6 + y2 / 3) +
                          square(m.u_softmax) / 3 * (n + 1) * (weight_squares_ / 6 + 1.0 / 3) * y2 +
                          square(m.c_div * m.u_final) * y2;
  const double radius = spread_margin * lambda * std::sqrt(variance) * (1 - 1e-9) - 1e-13 * sum(size);
  return radius >= 0 && radius < most_tau && round((y - radius) / unit) <= got && got <= round((y + radius) / unit);
}

bool RowSpread::holds(const Row& row, const Column& column, double y, Spread spread, double lambda,
                      const Rounding& round, double got) {
  const Interval at = interval(row, column, y, spread, lambda);
  return round(at.lo) <= got && got <= round(at.hi);
}

double RowSpread::least_lambda(const Row& row, const Column& column, double y, Spread spread, const Rounding& round,
                               double got) {
  return oracle::least_lambda([&](double lambda) { return holds(row, column, y, spread, lambda, round, got); });
}

}  // namespace attest::oracle
