#include "oracle/statistical.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "oracle/lanes.hpp"

namespace attest::oracle {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double unit64 = 0x1p-53;  // of the reference itself
// Rows whose weights may be off by more than this, relatively, are judged by a box.
constexpr double linear_limit = 0.05;
// Room for what the terms leave out.
constexpr double margin = 1.05;

double square(double x) { return x * x; }

// The keys that set a new maximum, from the first on or from the last on.
template <class Iterator>
double records(Iterator from, Iterator to) {
  double top = -infinity, count = 0;
  for (; from != to; ++from)
    if (*from > top) {
      top = *from;
      ++count;
    }
  return count;
}

// Increments that agree to within an ulp of their accumulator meet the same rounding error in every addition. Among n of
// them in groups of c_g that is sum c_g^2 / n, at least 1. An increment of 0 changes no sum.
double coherence(std::vector<double> increments, double ulp) {
  if (!(ulp > 0)) return 1;
  const double n = static_cast<double>(increments.size());
  double squares = static_cast<double>(std::erase(increments, 0.0));
  for (double& x : increments) x = std::floor(x / ulp);
  std::sort(increments.begin(), increments.end());
  for (auto group = increments.begin(); group != increments.end();) {
    const auto end = std::upper_bound(group, increments.end(), *group);
    squares += square(static_cast<double>(end - group));
    group = end;
  }
  return std::max(1.0, squares / n);
}

// Running sums of terms, in the order of the keys.
struct Prefixes {
  double squares = 0;         // of the terms
  double prefix_squares = 0;  // of the running sums
  double largest = 0;         // magnitude of a running sum
};
Prefixes prefixes(std::span<const double> terms) {
  Prefixes result;
  double running = 0;
  for (const double x : terms) {
    running += x;
    result.squares += x * x;
    result.prefix_squares += running * running;
    result.largest = std::max(result.largest, std::fabs(running));
  }
  return result;
}

// Keys of one tile or split share the rounding of its maximum, or of its log-sum-exp: the largest sum of squares of
// block sums over the sizes that blocks may have.
double largest_block_squares(const std::vector<double>& moved) {
  double best = 0;
  for (std::size_t size = 1;; size = size == 1 || size == 4 ? 4 * size : 2 * size) {
    double squares = 0;
    for (std::size_t first = 0; first < moved.size(); first += size) {
      const auto from = moved.begin() + static_cast<std::ptrdiff_t>(first);
      const auto count = static_cast<std::ptrdiff_t>(std::min(size, moved.size() - first));
      squares += square(std::accumulate(from, from + count, 0.0));
    }
    best = std::max(best, squares);
    if (size >= moved.size()) return best;
  }
}

}  // namespace

std::string_view statistical_refusal(const Contract& contract) {
  if (contract.arithmetic.kappa > 1) return "accumulators may truncate (kappa above 1), so that errors point one way";
  if (contract.arithmetic.flush_to_zero) return "subnormals are flushed to zero, so that errors point one way";
  return {};
}

void RowSpread::evaluate(const Call& call, const Row& row, Index b, Index h, Index i) {
  const Numbers& m = call.numbers;
  const auto n = static_cast<std::size_t>(row.n);
  const auto stride = static_cast<std::size_t>(padded(call.d));
  query_.assign(stride, 0);
  keys_.assign(n * stride, 0);
  read_row(call.q, b, h, i, call.d, query_.data());
  double query_square = 0;
  for (const double x : query_) query_square += x * x;

  rescales_ = 2 + std::max(records(row.z.begin(), row.z.begin() + row.n), records(row.z.rend() - row.n, row.z.rend()));
  tau.assign(row.p.size(), 0);
  tau1.assign(row.p.size(), 0);
  double largest_tau = 0;
  for (std::size_t t = 0; t < n; ++t) {
    double* key = keys_.data() + t * stride;
    read_row(call.k, b, call.kv_head(h), row.keys[t], call.d, key);
    double qk = 0, qk_squares = 0, key_square = 0;
    for (std::size_t c = 0; c < stride; ++c) {
      const double product = query_[c] * key[c];
      qk += product;
      qk_squares += product * product;
      key_square += key[c] * key[c];
    }
    const double s = qk * m.scale, z = row.z[t], q2 = square(m.scale) * qk_squares;
    const double below = row.z_max - z;
    double variance = square(m.u_acc) / 3 * ((m.d + 1) * (q2 / 6 + s * s / 3) + (m.inexact_qk ? q2 : 0)) +
                      m.d * square(m.eta_acc * m.mu) + (square(m.u_score) + square(m.u_scale)) / 3 * s * s;
    if (m.scaled_keys) variance += 2 * square(m.u_scale) * q2 / 3 + square(m.eta_scale) * query_square / 3;
    if (call.has_bias || m.softcap > 0) variance += 2 * square(m.u_score) / 3 * z * z;
    variance +=
        square(m.u_softmax) / 3 * ((1 + m.a1) * z * z + m.a3 * below * below) + square(m.c_exp) / 3 * (1 + rescales_);
    variance += square(unit64) * ((m.d + 8) * q2 + s * s + z * z + below * below);  // the reference's own
    tau[t] = std::sqrt(variance);
    if (m.scaled_keys) tau1[t] = m.u_scale * std::sqrt(2 * q2 / 3) + m.eta_scale * std::sqrt(key_square / 3);
    tau1[t] += m.u_softmax * row.a2 * row.z_top / std::sqrt(3.0);
    largest_tau = std::max(largest_tau, tau[t] + tau1[t]);
  }
  by_box = !(largest_tau <= linear_limit);
  sort_into_bins(m, row);

  const Prefixes weights = prefixes({row.p.data(), n});
  // A weight is rounded as it is, or normalised, which makes it smaller.
  weight_unit_ = m.arithmetic.normalise_before || m.arithmetic.normalise_lse ? 1 : row.mass;
  smallest_weight_ = 2 * m.eta_weights;
  weight_squares_ = weights.squares;
  weight_prefixes_ = weights.prefix_squares;
  const auto [least, most] = std::minmax_element(row.z.begin(), row.z.begin() + row.n);
  sum_coherence_ = *least == *most ? 1 : coherence({row.p.begin(), row.p.begin() + row.n}, 2 * m.u_softmax);
}

// Keys whose scores are as good as equal have weights that round alike.
void RowSpread::sort_into_bins(const Numbers& m, const Row& row) {
  order_.resize(static_cast<std::size_t>(row.n));
  std::iota(order_.begin(), order_.end(), Index{0});
  const auto score = [&](Index t) { return row.z[static_cast<std::size_t>(t)]; };
  std::sort(order_.begin(), order_.end(),
            [&](Index a, Index b) { return score(a) != score(b) ? score(a) < score(b) : a < b; });
  const double width = m.u_weights > 0 ? m.u_weights / 2 : 8 * m.u_softmax;
  bin_ends_.clear();
  double first = score(order_.front());
  for (std::size_t at = 0; at < order_.size(); ++at) {
    if (!(score(order_[at]) - first > width)) continue;
    bin_ends_.push_back(static_cast<Index>(at));
    first = score(order_[at]);
  }
  bin_ends_.push_back(row.n);
}

// The variance of independent errors of size term(t), with those of a bin taken together as well.
template <class Term>
double RowSpread::binned(Term&& term) const {
  double variance = 0;
  Index at = 0;
  for (const Index end : bin_ends_) {
    const bool several = end - at > 1;
    double total = 0;
    for (; at < end; ++at) {
      const double x = term(static_cast<std::size_t>(order_[static_cast<std::size_t>(at)]));
      total += x;
      variance += x * x;
    }
    if (several) variance += total * total;
  }
  return variance;
}

// What every key's own score and weight contribute.
double RowSpread::of_scores_and_weights(const Numbers& m, const Row& row, const Element& e) const {
  double variance = binned([&](std::size_t t) { return e.moved[t] * tau[t]; });
  if (m.weights_round)
    variance += binned([&](std::size_t t) {
      const double weight = row.p[t] * weight_unit_;
      if (weight < smallest_weight_) return 0.0;  // lost: part of the bias
      const double r = std::max(m.u_weights, m.eta_weights / weight) / std::sqrt(3.0);
      return e.carried[t] * std::min(r, 1.0);
    });
  return variance;
}

// Errors that keys have in common: those of q with the scale in it, and of a tile's or split's shift.
double RowSpread::of_shared_factors(const Numbers& m, const Row& row, const Element& e) const {
  double variance = 0;
  if (m.scaled_queries) {
    const std::size_t stride = query_.size();
    std::vector<double> covariance(stride, 0);
    for (std::size_t t = 0; t < e.moved.size(); ++t)
      for (std::size_t c = 0; c < stride; ++c) covariance[c] += e.moved[t] * keys_[t * stride + c];
    for (std::size_t c = 0; c < stride; ++c)
      variance +=
          square(covariance[c]) * (2 * square(m.u_scale * query_[c] * m.scale) + square(m.eta_scale) * m.mu) / 3;
  }
  if (row.a2 > 0) variance += square(m.u_softmax * row.a2 * row.z_top) / 3 * largest_block_squares(e.moved);
  return variance;
}

// The sum of weighted values, the sum of weights, and what turns them into an output.
double RowSpread::of_sums(const Numbers& m, const Row& row, const Element& e) const {
  const double n = static_cast<double>(row.n), y2 = square(e.y);
  const Prefixes values = prefixes(e.carried);
  const double alike = coherence(e.carried, 2 * m.u_pv * values.largest);
  const double additions = std::max((n + 1) * (values.squares / 6 + y2 / 3), values.prefix_squares);
  const double sum_additions = std::max((n + 1) * (weight_squares_ / 6 + 1.0 / 3), weight_prefixes_);
  double variance =
      square(m.u_pv) / 3 * (additions * alike + rescales_ * y2 + (m.inexact_pv ? values.squares * alike : 0)) +
      n * square(m.eta_pv * e.unit);
  variance += square(m.u_softmax) / 3 * (sum_additions * sum_coherence_ + rescales_) * y2;
  variance += square(m.c_div * m.u_final) * y2;
  double absolute = 0;
  for (const double x : e.carried) absolute += std::fabs(x);
  return variance + square(unit64 * absolute) * (n + 8);  // the reference's own
}

// What sums lose because a term is below an ulp of the running sum, and weights that may be lost altogether.
double RowSpread::stagnation(const Numbers& m, const Row& row, const Element& e) const {
  const double value_ulp = m.u_pv * prefixes(e.carried).largest;
  double bias = 0;
  for (std::size_t t = 0; t < e.carried.size(); ++t) {
    const double size = std::fabs(e.carried[t]);
    if (m.weights_round && row.p[t] * weight_unit_ < smallest_weight_) bias += size;
    if (size < value_ulp) bias += size;
    if (row.p[t] < m.u_softmax) bias += row.p[t] * std::fabs(e.y);
  }
  return bias;
}

Spread RowSpread::of(const Call& call, const Row& row, const Column& column, double y) const {
  const Numbers& m = call.numbers;
  const auto n = static_cast<std::size_t>(row.n);
  Element e{column.values(), y * column.unit(), column.unit(), std::vector<double>(n), std::vector<double>(n)};
  double covariance = 0, squares = 0;
  for (std::size_t t = 0; t < n; ++t) {
    e.carried[t] = row.p[t] * e.v[t];
    e.moved[t] = row.p[t] * (e.v[t] - e.y);
    covariance += (row.z_max - row.z[t]) * e.moved[t];
    squares += square(e.carried[t]);
  }
  double s = std::sqrt(of_scores_and_weights(m, row, e) + of_shared_factors(m, row, e) + of_sums(m, row, e));
  s += 3 * m.u_softmax * std::fabs(covariance);
  if (m.merges) s += (m.u_partial + 2 * m.u_final) * std::sqrt(squares / 3) + m.u_final * std::fabs(e.y);
  return {s / e.unit, stagnation(m, row, e) / e.unit};
}

void RowSpread::widen(const Row& row, double lambda) {
  width_.resize(tau.size());
  for (std::size_t t = 0; t < tau.size(); ++t) width_[t] = lambda * (tau[t] + tau1[t]);
  row.fill_box(box_, width_, 0);
}

RowSpread::Interval RowSpread::interval(const Row& row, const Column& column, double y, Spread spread, double lambda) {
  const double radius = margin * lambda * spread.s + spread.bias;
  if (!by_box) return {y - radius, y + radius};
  widen(row, lambda);
  const double unit = column.unit();
  return {column.box_extreme(box_, y * unit, -1) / unit - radius,
          column.box_extreme(box_, y * unit, 1) / unit + radius};
}

double RowSpread::least_lambda(const Row& row, const Column& column, double y, Spread spread, const Rounding& round,
                               double got) {
  const auto holds = [&](double lambda) {
    const Interval at = interval(row, column, y, spread, lambda);
    return round(at.lo) <= got && got <= round(at.hi);
  };
  if (holds(0)) return 0;
  double lo = 0, hi = 1;
  for (; !holds(hi); hi *= 2) {
    if (hi >= 0x1p20) return infinity;
    lo = hi;
  }
  for (int step = 0; step < 30; ++step) {
    const double middle = 0.5 * (lo + hi);
    (holds(middle) ? hi : lo) = middle;
  }
  return hi;
}

}  // namespace attest::oracle
