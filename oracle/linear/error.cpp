#include "oracle/linear/error.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "oracle/last_bit.hpp"
#include "oracle/numbers.hpp"

namespace attest::oracle {
namespace {

// The facts that one row of a factor contributes to every sum that it takes part in.
struct RowFacts {
  Index nonzero = 0;
  int last = 1 << 20;
  bool powers = true, finite = true;
  double sum = 0, largest = 0;
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
      facts.largest = std::max(facts.largest, std::fabs(x));
    }
    if (facts.nonzero > few) facts.few.clear();
  }
  return all;
}

// Sums up the terms of a sum in which one factor has few elements, one by one.
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

SumRule::SumRule(const mha::Contract& contract, Format the_left, Format the_right)
    : accumulator(contract.gemm),
      kappa(contract.attention.arithmetic.kappa),
      chain(contract.gemm_chain),
      left(the_left),
      right(the_right),
      exact_bits(precision(contract.gemm)),
      flush(contract.attention.arithmetic.flush_to_zero) {
  const Format storage = contract.attention.policy[Stage::storage], operand = contract.attention.policy[Stage::operand];
  smallest_factor = smallest_normal(storage);
  if (flush) smallest_input = smallest_factor;
  const std::optional<Mma>& mma = contract.attention.arithmetic.mma;
  if (loses(operand, storage)) {
    const double steps = mma && operand == Format::tf32 ? 2 : 1;  // the bits that tf32 has not are ignored
    narrowed = 2;
    u_operand = steps * unit_roundoff(operand);
    eta_operand = flush ? smallest_normal(operand) : steps * half_smallest_subnormal(operand);
    overflowing_factor = overflow_threshold(operand);
  }
  if (wide_factors() > 0) overflowing_factor = std::min(overflowing_factor, overflow_threshold(accumulator));
  if (!mma) return;
  blocks = BlockSums(*mma, accumulator, precision(left) + precision(right) - 2, unit_roundoff(accumulator), !mma->only);
  if (blocks.any()) exact_bits = std::min({exact_bits, mma->frac, fraction_bits(mma->out) + 1});
}

int SumRule::wide_factors() const noexcept {
  return (loses(accumulator, left) ? 1 : 0) + (loses(accumulator, right) ? 1 : 0);
}

double SumRule::most_relative(double terms) const noexcept {
  const double u = kappa * unit_roundoff(accumulator);
  double of_sum = compounded(terms, u);
  if (blocks.any())
    of_sum += growth((blocks.relative(terms, terms) + std::max(blocks.cut, u)) * (1 + u)) * (1 + of_sum);
  return of_sum + compounded(narrowed, u_operand) * (1 + of_sum);
}

double SumRule::most_absolute(double terms, double largest) const noexcept {
  const double eta = std::max(flush ? smallest_normal(accumulator) : 0, kappa * half_smallest_subnormal(accumulator));
  double absolute = 2 * terms * eta * (1 + largest);
  if (flush) absolute += 2 * terms * smallest_input * (largest + 1) + 3 * smallest_factor;
  if (blocks.any())
    absolute += (blocks.relative(terms, terms) + 1) * blocks.smallest +
                2 * blocks.aligned(terms, terms, smallest_factor) * (largest + smallest_factor);
  return absolute + 2 * terms * eta_operand * (largest + eta_operand);
}

SumErrors::SumErrors(const SumRule& rule, Index most_terms) : rule_(rule), wide_(rule.wide_factors()) {
  const double u = rule.kappa * unit_roundoff(rule.accumulator);
  of_wide_ = compounded(wide_, u);
  of_operand_ = compounded(rule.narrowed, rule.u_operand);
  if (rule.blocks.any()) return;
  for (Index k = 0; k <= most_terms + 4; ++k) relative_.push_back(compounded(static_cast<double>(k), u));
}

Index SumErrors::depth(const Terms& terms) const {
  Index additions = std::max<Index>(0, static_cast<Index>(terms.count) - 1);
  if (rule_.chain)
    additions = std::min(additions, static_cast<Index>(rule_.chain->depth(terms.products)) + (terms.biased ? 1 : 0));
  return additions + (terms.rounded ? 1 : 0) + wide_;
}

// Nobody says where a sum is split, so that every product may begin a block.
double SumErrors::lost_by_blocks(const Terms& terms) const {
  const double products = terms.count - (terms.biased ? 1 : 0);
  return rule_.blocks.relative(products, products) +
         (terms.biased ? std::max(rule_.blocks.cut, unit_roundoff(rule_.accumulator)) : 0);
}

double SumErrors::relative(const Terms& terms) const {
  double of_sum = 0;
  if (rule_.blocks.any()) {
    of_sum = growth(lost_by_blocks(terms) * (1 + unit_roundoff(rule_.accumulator)));
    of_sum += of_wide_ + of_sum * of_wide_;
  } else {
    of_sum = relative_[static_cast<std::size_t>(depth(terms))];
    if (rule_.kappa <= 1) {  // additions that round to nearest add up, however many (docs/bounds.md, section 0b)
      const double of_term = relative_[static_cast<std::size_t>((terms.rounded ? 1 : 0) + wide_)];
      const double u = unit_roundoff(rule_.accumulator), of_additions = std::max(0.0, terms.count - 1) * u * (1 + u);
      of_sum = std::min(of_sum, of_term + of_additions + of_term * of_additions);
    }
  }
  return of_operand_ > 0 ? of_sum + of_operand_ + of_sum * of_operand_ : of_sum;
}

// Tells whether every partial sum, in any order, is a number of the accumulator: a multiple of 2^last_bit that it
// holds.
bool SumErrors::exact(const Terms& terms) const {
  const bool normal_only = rule_.flush || rule_.blocks.any();
  const int lowest = min_exponent(rule_.accumulator) - (normal_only ? 0 : precision(rule_.accumulator) - 1);
  if (wide_ > 0 || rule_.narrowed > 0 || terms.last_bit < lowest) return false;
  double magnitude = terms.magnitude;
  if (rule_.blocks.any())
    magnitude += rule_.smallest_factor * (terms.factors + terms.count * rule_.smallest_factor);
  else if (depth(terms) == 0)
    return true;
  return magnitude <= power_of_two(terms.last_bit + rule_.exact_bits);
}

double SumErrors::operator()(const Terms& terms) const {
  if (terms.count == 0) return 0;
  if (exact(terms)) return terms.flushed;
  const double e = relative(terms);
  const double eta = std::max(rule_.flush ? smallest_normal(rule_.accumulator) : 0,
                              rule_.kappa * half_smallest_subnormal(rule_.accumulator));
  const bool whole = terms.last_bit >= min_exponent(rule_.accumulator) - precision(rule_.accumulator) + 1;
  double absolute = terms.flushed;
  if (rule_.blocks.any()) {
    const double products = terms.count - (terms.biased ? 1 : 0);
    absolute +=
        lost_by_blocks(terms) * rule_.blocks.smallest +
        rule_.blocks.aligned(products, products, rule_.smallest_factor) * (terms.largest + rule_.smallest_factor);
  }
  if (rule_.flush)
    absolute += 2 * terms.count * eta;
  else if (!rule_.blocks.any() && (terms.rounded || wide_ > 0 || rule_.narrowed > 0 || !whole))
    absolute += terms.count * eta;
  if (wide_ > 0) absolute += eta * terms.factors;
  if (rule_.narrowed > 0) absolute += rule_.eta_operand * (terms.factors + terms.count * rule_.eta_operand);
  return e * terms.magnitude + absolute * (1 + e) +
         2 * (static_cast<double>(terms.products) + 4) * 0x1p-53 * terms.magnitude;
}

bool SumErrors::overflows(const Terms& terms) const {
  return !(terms.magnitude * (1 + relative(terms)) < overflow_threshold(rule_.accumulator)) ||
         !(terms.largest < rule_.overflowing_factor);
}

namespace {

// Elements that may be flushed, by magnitude; no rows if there are none.
Matrix small_ones(const Matrix& matrix, double smallest) {
  Matrix small;
  for (Index i = 0; i < matrix.rows(); ++i)
    for (Index c = 0; c < matrix.columns(); ++c) {
      const double magnitude = std::fabs(matrix(i, c));
      if (magnitude == 0 || !(magnitude < smallest)) continue;
      if (small.rows() == 0) small = Matrix(matrix.rows(), matrix.columns());
      small(i, c) = magnitude;
    }
  return small;
}

// The magnitudes of the others.
Matrix large_ones(const Matrix& matrix, double smallest) {
  Matrix large = magnitudes(matrix);
  for (Index i = 0; i < matrix.rows(); ++i)
    for (Index c = 0; c < matrix.columns(); ++c)
      if (large(i, c) < smallest) large(i, c) = 0;
  return large;
}

// Returns for every sum the total of the terms that a flushed factor may remove, each counted once; no rows if there
// are none.
Matrix flushed_terms(const Matrix& x, const Matrix& w, double smallest) {
  if (smallest == 0) return {};
  const Matrix small_x = small_ones(x, smallest), small_w = small_ones(w, smallest);
  Matrix terms;
  if (small_x.rows() > 0) terms = product(small_x, magnitudes(w));
  if (small_w.rows() == 0) return terms;
  Matrix others = product(small_x.rows() > 0 ? large_ones(x, smallest) : magnitudes(x), small_w);
  if (terms.rows() == 0) return others;
  for (Index i = 0; i < x.rows(); ++i)
    for (Index n = 0; n < w.rows(); ++n) terms(i, n) += others(i, n);
  return terms;
}

}  // namespace

Projected project(const SumRule& rule, const Matrix& x, const Matrix& w, const double* bias) {
  Projected result{product(x, w), Matrix(x.rows(), w.rows()), product(magnitudes(x), magnitudes(w)), {}};
  result.unknown.assign(static_cast<std::size_t>(x.rows() * w.rows()), 0);
  const std::vector<RowFacts> of_x = facts_of(x), of_w = facts_of(w);
  const SumErrors errors(rule, x.columns() + 1);
  const Matrix flushed = flushed_terms(x, w, rule.smallest_input);
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
                  left.sum + right.sum,
                  left.largest + right.largest};
      if (flushed.rows() > 0) terms.flushed = flushed(i, n);
      if (std::fabs(b) < rule.smallest_input) terms.flushed += std::fabs(b);
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
