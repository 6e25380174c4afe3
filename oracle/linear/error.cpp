#include "oracle/linear/error.hpp"

#include <algorithm>
#include <cmath>

#include "oracle/last_bit.hpp"
#include "oracle/numbers.hpp"

namespace attest::oracle {
namespace {

// What one row of a factor says of every sum that it takes part in.
struct RowFacts {
  Index nonzero = 0;
  int last = 1 << 20;
  bool powers = true, finite = true;
  double sum = 0;
  std::vector<Index> few;  // where the elements lie that are not 0, if they are few
};

constexpr Index few = 8;

std::vector<RowFacts> facts_of(const Matrix& matrix) {
  std::vector<RowFacts> all(static_cast<std::size_t>(matrix.rows()));
  for (Index i = 0; i < matrix.rows(); ++i) {
    RowFacts& facts = all[static_cast<std::size_t>(i)];
    for (Index c = 0; c < matrix.columns(); ++c) {
      const double x = matrix(i, c);
      if (x == 0) continue;
      facts.finite = facts.finite && std::isfinite(x);
      if (!facts.finite) continue;
      if (++facts.nonzero <= few) facts.few.push_back(c);
      facts.last = std::min(facts.last, last_bit(x));
      facts.powers = facts.powers && is_power_of_two(std::fabs(x));
      facts.sum += std::fabs(x);
    }
    if (facts.nonzero > few) facts.few.clear();
  }
  return all;
}

// Of a sum in which one factor has few elements: term by term.
void look_closely(const SumRule& rule, const RowFacts& sparse, const double* x, const double* w, Terms& terms) {
  terms.count = 0;
  terms.last_bit = 1 << 20;
  terms.rounded = false;
  for (const Index c : sparse.few) {
    if (x[c] == 0 || w[c] == 0) continue;
    ++terms.count;
    terms.last_bit = std::min(terms.last_bit, last_bit(x[c]) + last_bit(w[c]));
    if (rule.products_round() && !is_power_of_two(std::fabs(x[c])) && !is_power_of_two(std::fabs(w[c])))
      terms.rounded = true;
  }
}

double depth(const SumRule& rule, const Terms& terms) {
  double additions = std::max(0.0, terms.count - 1);
  if (rule.chain) additions = std::min(additions, rule.chain->depth(terms.products) + (terms.biased ? 1 : 0));
  return additions + (terms.rounded ? 1 : 0) + rule.wide_factors();
}

}  // namespace

int SumRule::wide_factors() const noexcept {
  return (loses(accumulator, left) ? 1 : 0) + (loses(accumulator, right) ? 1 : 0);
}

double sum_error(const SumRule& rule, const Terms& terms) {
  if (terms.count == 0) return 0;
  const double u = rule.kappa * unit_roundoff(rule.accumulator);
  const double eta = rule.kappa * half_smallest_subnormal(rule.accumulator);
  const bool whole = std::ldexp(1.0, terms.last_bit) >= 2 * half_smallest_subnormal(rule.accumulator);
  const int wide = rule.wide_factors();
  // Every partial sum is a multiple of 2^last_bit that the accumulator holds.
  if (wide == 0 && whole && terms.magnitude <= std::ldexp(1.0, terms.last_bit + precision(rule.accumulator))) return 0;
  const double k = depth(rule, terms);
  if (k == 0 && whole) return 0;
  const double relative = compounded(k, u);
  double error = relative * terms.magnitude;
  if (terms.rounded || wide > 0 || !whole) error += terms.count * eta * (1 + relative);
  if (wide > 0) error += eta * terms.factors * (1 + relative);
  return error + 2 * (static_cast<double>(terms.products) + 4) * 0x1p-53 * terms.magnitude;
}

bool sum_overflows(const SumRule& rule, const Terms& terms) {
  const double grown = 1 + compounded(depth(rule, terms), rule.kappa * unit_roundoff(rule.accumulator));
  return !(terms.magnitude * grown < overflow_threshold(rule.accumulator));
}

Projected project(const SumRule& rule, const Matrix& x, const Matrix& w, const double* bias) {
  Projected result{product(x, w), Matrix(x.rows(), w.rows()), product(magnitudes(x), magnitudes(w)), {}};
  result.unknown.assign(static_cast<std::size_t>(x.rows() * w.rows()), 0);
  const std::vector<RowFacts> of_x = facts_of(x), of_w = facts_of(w);
  for (Index i = 0; i < x.rows(); ++i)
    for (Index n = 0; n < w.rows(); ++n) {
      const RowFacts &left = of_x[static_cast<std::size_t>(i)], &right = of_w[static_cast<std::size_t>(n)];
      const double b = bias != nullptr ? bias[n] : 0;
      double &value = result.value(i, n), &magnitude = result.magnitude(i, n);
      value += b;
      magnitude += std::fabs(b);
      Terms terms{x.columns(),
                  static_cast<double>(std::min(left.nonzero, right.nonzero)),
                  b != 0,
                  left.last + right.last,
                  rule.products_round() && !left.powers && !right.powers,
                  magnitude,
                  left.sum + right.sum};
      if (!right.few.empty())
        look_closely(rule, right, x.row(i), w.row(n), terms);
      else if (!left.few.empty())
        look_closely(rule, left, x.row(i), w.row(n), terms);
      if (b != 0) {
        ++terms.count;
        terms.last_bit = std::min(terms.last_bit, std::isfinite(b) ? last_bit(b) : 0);
      }
      const bool finite = left.finite && right.finite && std::isfinite(b) && std::isfinite(magnitude);
      if (!finite || sum_overflows(rule, terms)) {
        result.unknown[static_cast<std::size_t>(i * w.rows() + n)] = 1;
        continue;
      }
      result.error(i, n) = sum_error(rule, terms);
    }
  return result;
}

}  // namespace attest::oracle
