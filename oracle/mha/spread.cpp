// The statistical tier of a block's out: docs/mha.md, section 12.
#include "oracle/mha/spread.hpp"

#include <algorithm>
#include <cmath>

#include "oracle/lanes.hpp"
#include "oracle/mha/points.hpp"
#include "oracle/series.hpp"

namespace attest::oracle {
namespace {

// How often a normal error of deviation 1 is larger than x.
double beyond(double x) { return 0.5 * std::erfc(x / std::sqrt(2.0)); }

}  // namespace

BlockSpread::BlockSpread(const Way::Block& block, WayName name)
    : block_(block), name_(name), rule_(block.contract, block.storage, block.storage) {
  Points points(block, name.projected);
  way_.emplace(block, name.projected, name.heads_rounded, points.take_inputs());
  q_noise_ = noise_of(block.x, block.w_q, block.b_q);
  k_noise_ = noise_of(block.remembered(), block.w_k, block.b_k);
  v_noise_ = noise_of(block.remembered(), block.w_v, block.b_v);
  heads_.resize(static_cast<std::size_t>(block.call.heads));
}

// Of a sum that is q without errors and has the deviation sg.
double BlockSpread::stored_noise(double q, double sg, double bias) const {
  if (sg == 0 || name_.projected == mha::Projected::unrounded) return sg * sg;
  const auto rounded = [&](double at, double off) {
    const double near = round_to(block_.storage, at), ulp = 2 * half_ulp(block_.storage, near);
    if (off > ulp / 4) return off * off + ulp * ulp / 6;
    const double distance = std::max(0.0, ulp / 2 - std::fabs(at - near));
    return ulp * ulp * beyond(distance / off);
  };
  if (name_.projected == mha::Projected::rounded) return rounded(q, sg);
  const double first = rounded(q, sg);
  if (first == 0) return 0;
  // What is rounded again lies a whole step off, where it does.
  const double at = round_to(block_.storage, q) + bias, ulp = 2 * half_ulp(block_.storage, at),
               step = 2 * half_ulp(block_.storage, q);
  return 1.5 * first + std::min(1.0, first / (step * step)) * ulp * ulp;
}

Matrix BlockSpread::noise_of(const Matrix& x, const Matrix& w, const std::vector<double>& bias) const {
  const bool separate = name_.projected == mha::Projected::separate;
  const Projected of = project(rule_, x, w, separate ? nullptr : bias.data());
  const auto squared = [](Matrix matrix) {
    for (Index i = 0; i < matrix.rows(); ++i)
      for (Index c = 0; c < matrix.columns(); ++c) matrix(i, c) *= matrix(i, c);
    return matrix;
  };
  Matrix noise = product(squared(x), squared(w));
  const double u = unit_roundoff(rule_.accumulator), eta = half_smallest_subnormal(rule_.accumulator);
  const auto terms = static_cast<double>(x.columns() + 1);
  for (Index i = 0; i < x.rows(); ++i)
    for (Index n = 0; n < w.rows(); ++n) {
      const double added = separate ? 0 : bias[static_cast<std::size_t>(n)], q = of.value(i, n);
      const double squares = noise(i, n) + added * added;
      const double factors = (rule_.products_round() ? 1 : 0) + rule_.wide_factors();
      const double sg2 = of.error(i, n) == 0 ? 0
                                             : u * u / 3 * (terms * (squares / 6 + q * q / 3) + factors * squares) +
                                                   (factors > 0 ? terms * eta * eta : 0);
      noise(i, n) = of.is_unknown(i, n) ? infinity : stored_noise(q, std::sqrt(sg2), bias[static_cast<std::size_t>(n)]);
    }
  return noise;
}

void BlockSpread::start(Index b, Index i) {
  if (b == b_ && i == i_) return;
  b_ = b;
  i_ = i;
  for (Index h = 0; h < block_.call.heads; ++h) evaluate(b, i, h);
}

void BlockSpread::find_same(Head& head) const {
  const std::size_t d = head.values.size();
  head.same.assign(d, 0);
  head.sign.assign(d, 1);
  head.distinct = true;
  for (std::size_t c = 0; c < d; ++c) {
    head.same[c] = static_cast<Index>(c);
    for (std::size_t other = 0; other < c && head.same[c] == static_cast<Index>(c); ++other)
      for (const double sign : {1.0, -1.0})
        if (std::ranges::equal(head.values[c], head.values[other], {}, {}, [&](double v) { return sign * v; })) {
          head.same[c] = static_cast<Index>(other);
          head.sign[c] = sign;
          head.distinct = false;
          break;
        }
  }
}

void BlockSpread::evaluate(Index b, Index i, Index h) {
  const Call& call = way_->attention();
  const mha::Call& block = block_.call;
  Head& head = heads_[static_cast<std::size_t>(h)];
  const Index kv = call.kv_head(h), d = block.head_dim, m = block.m();
  head.usable = false;
  head.row.evaluate(call, head_facts(call, b, kv), b, h, i);
  const Row& row = head.row;
  if (row.kind != RowKind::ordinary || row.score_lost || row.nonfinite_ok || row.finite_undetermined || row.zero_ok)
    return;
  head.spread.evaluate(call, row, b, h, i);
  if (!head.spread.applies || head.spread.by_box) return;
  if (shares_largest_weight(call.numbers, row.a2, row.z_max)) return;

  const auto n = static_cast<std::size_t>(row.n), width = static_cast<std::size_t>(d);
  const double scale2 = square(call.numbers.scale), group = static_cast<double>(block.group());
  std::vector<double> q(static_cast<std::size_t>(padded(d)));
  read_row(call.q, b, h, i, d, q.data());
  head.of_query.resize(width);
  double largest = 0;
  for (std::size_t c = 0; c < width; ++c)
    head.of_query[c] = scale2 * q_noise_(b * block.l() + i, h * d + static_cast<Index>(c));
  head.keys.assign(n * width, 0);
  head.of_key.assign(n, 0);
  head.values.assign(width, std::vector<double>(n, 0));
  std::vector<double> line(static_cast<std::size_t>(padded(d)));
  std::vector<double> of_values(width, 0);
  for (std::size_t t = 0; t < n; ++t) {
    const Index key = row.keys[t], token = b * m + key;
    read_row(call.k, b, kv, key, d, line.data());
    double of_score = 0;
    for (std::size_t c = 0; c < width; ++c) {
      head.keys[t * width + c] = line[c];
      head.of_key[t] += scale2 * square(q[c]) * k_noise_(token, kv * d + static_cast<Index>(c));
      of_score += square(line[c]) * head.of_query[c];
    }
    const double tau = head.spread.tau[t] + head.spread.tau1[t];
    largest = std::max(largest, square(tau) + of_score + head.of_key[t]);
    read_row(call.v, b, kv, key, d, line.data());
    for (std::size_t c = 0; c < width; ++c) {
      head.values[c][t] = line[c];
      of_values[c] += square(row.p[t]) * v_noise_(token, kv * d + static_cast<Index>(c));
    }
  }
  // Errors of scores so large that they do not act linearly: nothing is said.
  if (!(largest <= square(linear_limit))) return;

  // A key and a value serve the heads of a group, whose parts of an element may add up.
  for (double& variance : head.of_key) variance *= group;
  head.y.assign(width, 0);
  head.own.assign(width, 0);
  head.bias.assign(width, 0);
  for (std::size_t c = 0; c < width; ++c) {
    for (std::size_t t = 0; t < n; ++t) head.y[c] += row.p[t] * head.values[c][t];
    const RowSpread::Own own = head.spread.own_sums(call, row, head.values[c], head.y[c]);
    const double rounded = half_ulp(way_->heads_format(), head.y[c]);
    head.own[c] = own.variance + group * of_values[c] + rounded * rounded / 3;
    head.bias[c] = own.bias;
  }
  find_same(head);
  head.usable = true;
}

const double* BlockSpread::coefficients_of(const Head& head, const double* weights) {
  if (head.distinct) return weights;
  coefficients_.assign(head.same.size(), 0);
  for (std::size_t c = 0; c < head.same.size(); ++c)
    coefficients_[static_cast<std::size_t>(head.same[c])] += head.sign[c] * weights[c];
  return coefficients_.data();
}

std::optional<double> BlockSpread::add_head(Head& head, const double* weights, double& variance, double& bias) {
  const std::size_t width = static_cast<std::size_t>(block_.call.head_dim);
  if (std::all_of(weights, weights + width, [](double w) { return w == 0; })) return 0;
  if (!head.usable) return std::nullopt;
  const auto n = static_cast<std::size_t>(head.row.n);
  const double* coefficients = coefficients_of(head, weights);
  combined_.assign(n, 0);
  double y = 0;
  for (std::size_t c = 0; c < width; ++c) {
    const double w = coefficients[c];
    if (w == 0) continue;
    y += w * head.y[c];
    for (std::size_t t = 0; t < n; ++t) combined_[t] += w * head.values[c][t];
    variance += square(w) * head.own[c];
    bias += std::fabs(w) * head.bias[c];
  }
  // What rounds a weight moves all columns alike, and so does what moves a score.
  const Spread of_weights = head.spread.of(way_->attention(), head.row, combined_, y);
  variance += square(of_weights.s);
  bias += of_weights.bias;
  terms_.assign(width, 0);
  for (std::size_t t = 0; t < n; ++t) {
    const double moved = head.row.p[t] * (combined_[t] - y);
    variance += square(moved) * head.of_key[t];
    for (std::size_t c = 0; c < width; ++c) terms_[c] += moved * head.keys[t * width + c];
  }
  for (std::size_t c = 0; c < width; ++c) variance += square(terms_[c]) * head.of_query[c];
  return y;
}

std::optional<BlockSpread::Least> BlockSpread::least_of(Index b, Index i, Index e) {
  start(b, i);
  const auto d = static_cast<std::size_t>(block_.call.head_dim);
  const double* row = block_.w_out.row(e);
  double y = block_.b_out[static_cast<std::size_t>(e)], magnitude = std::fabs(y), variance = 0;
  for (std::size_t h = 0; h < heads_.size(); ++h, row += d) {
    const Head& head = heads_[h];
    if (!head.usable) {
      if (std::all_of(row, row + d, [](double w) { return w == 0; })) continue;
      return std::nullopt;
    }
    const double* coefficients = coefficients_of(head, row);
    for (std::size_t c = 0; c < d; ++c) {
      const double part = coefficients[c] * head.y[c];
      y += part;
      magnitude += std::fabs(part);
      variance += square(coefficients[c]) * head.own[c];
    }
  }
  return Least{y, std::sqrt(variance) * (1 - 1e-9), 1e-12 * magnitude};
}

std::optional<BlockSpread::Element> BlockSpread::of(Index b, Index i, Index e) {
  start(b, i);
  const double* row = block_.w_out.row(e);
  const Index d = block_.call.head_dim;
  const bool separate = way_->separate();
  const double added = block_.b_out[static_cast<std::size_t>(e)];
  Element element{separate ? 0 : added, 0, 0};
  double variance = 0;
  for (std::size_t h = 0; h < heads_.size(); ++h) {
    const std::optional<double> y = add_head(heads_[h], row + static_cast<Index>(h) * d, variance, element.bias);
    if (!y) return std::nullopt;
    element.y += *y;
  }
  // The last product, in the orders in which its terms stand.
  std::vector<double> terms;
  bool powers = true;
  for (std::size_t h = 0; h < heads_.size(); ++h)
    for (Index c = 0; c < d; ++c) {
      const double w = row[static_cast<Index>(h) * d + c];
      if (w == 0) continue;
      terms.push_back(w * heads_[h].y[static_cast<std::size_t>(c)]);
      powers = powers && is_power_of_two(std::fabs(w));
    }
  if (!separate && added != 0) terms.push_back(added);
  const SumRule& rule = way_->out_rule();
  const double factors = (rule.products_round() && !powers ? 1 : 0) + rule.wide_factors();
  const auto count = static_cast<double>(terms.size());
  if (count > 1 || factors > 0) {
    const Prefixes sums = prefixes(terms);
    const double u = unit_roundoff(rule.accumulator), eta = half_smallest_subnormal(rule.accumulator);
    const double additions =
        count > 1 ? std::max(count * (sums.squares / 6 + square(element.y) / 3), sums.prefix_squares) : 0;
    variance += u * u / 3 * (additions + factors * sums.squares) + (factors > 0 ? count * eta * eta : 0);
  }
  if (separate) {
    variance += square(half_ulp(block_.storage, element.y)) / 3;
    element.y += added;
  }
  element.s = std::sqrt(variance);
  if (!std::isfinite(element.s + element.bias + element.y)) return std::nullopt;
  return element;
}

}  // namespace attest::oracle
