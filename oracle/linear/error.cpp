#include "oracle/linear/error.hpp"

#include <algorithm>
#include <bit>
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

// 2^n, or 0 or infinity.
double power_of_two(int n) {
  if (n < -1022) return n < -1074 ? 0 : std::ldexp(1.0, n);
  return n > 1023 ? infinity : std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

}  // namespace

int SumRule::wide_factors() const noexcept {
  return (loses(accumulator, left) ? 1 : 0) + (loses(accumulator, right) ? 1 : 0);
}

SumErrors::SumErrors(const SumRule& rule, Index most_terms) : rule_(rule), wide_(rule.wide_factors()) {
  for (Index k = 0; k <= most_terms + 4; ++k)
    relative_.push_back(compounded(static_cast<double>(k), rule.kappa * unit_roundoff(rule.accumulator)));
}

Index SumErrors::depth(const Terms& terms) const {
  Index additions = std::max<Index>(0, static_cast<Index>(terms.count) - 1);
  if (rule_.chain)
    additions = std::min(additions, static_cast<Index>(rule_.chain->depth(terms.products)) + (terms.biased ? 1 : 0));
  return additions + (terms.rounded ? 1 : 0) + wide_;
}

double SumErrors::operator()(const Terms& terms) const {
  if (terms.count == 0) return 0;
  const bool whole = terms.last_bit >= min_exponent(rule_.accumulator) - precision(rule_.accumulator) + 1;
  // Every partial sum is a multiple of 2^last_bit that the accumulator holds.
  if (wide_ == 0 && whole && terms.magnitude <= power_of_two(terms.last_bit + precision(rule_.accumulator))) return 0;
  const Index k = depth(terms);
  if (k == 0 && whole) return 0;
  const double relative = relative_[static_cast<std::size_t>(k)];
  const double eta = rule_.kappa * half_smallest_subnormal(rule_.accumulator);
  double error = relative * terms.magnitude;
  if (terms.rounded || wide_ > 0 || !whole) error += terms.count * eta * (1 + relative);
  if (wide_ > 0) error += eta * terms.factors * (1 + relative);
  return error + 2 * (static_cast<double>(terms.products) + 4) * 0x1p-53 * terms.magnitude;
}

bool SumErrors::overflows(const Terms& terms) const {
  const double grown = 1 + relative_[static_cast<std::size_t>(depth(terms))];
  return !(terms.magnitude * grown < overflow_threshold(rule_.accumulator));
}

Projected project(const SumRule& rule, const Matrix& x, const Matrix& w, const double* bias) {
  Projected result{product(x, w), Matrix(x.rows(), w.rows()), product(magnitudes(x), magnitudes(w)), {}};
  result.unknown.assign(static_cast<std::size_t>(x.rows() * w.rows()), 0);
  const std::vector<RowFacts> of_x = facts_of(x), of_w = facts_of(w);
  const SumErrors errors(rule, x.columns() + 1);
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
      if (!finite || errors.overflows(terms)) {
        result.unknown[static_cast<std::size_t>(i * w.rows() + n)] = 1;
        continue;
      }
      result.error(i, n) = errors(terms);
    }
  return result;
}

}  // namespace attest::oracle
