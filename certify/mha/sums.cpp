#include "certify/mha/sums.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace attest::certify::mha {
namespace {

constexpr std::size_t few = 8;

Ball power(int exponent) {
  Ball result;
  arf_set_si_2exp_si(arb_midref(result.get()), 1, exponent);
  return result;
}

}  // namespace

int last_bit(double x) {
  int exponent = 0;
  double odd = std::ldexp(std::frexp(std::fabs(x), &exponent), 53);
  for (exponent -= 53; std::fmod(odd, 2) == 0; odd /= 2) ++exponent;
  return exponent;
}

bool is_power_of_two(double x) {
  int exponent = 0;
  return std::frexp(std::fabs(x), &exponent) == 0.5;
}

Factor::Factor(std::vector<double> the_values) : values(std::move(the_values)) {
  for (std::size_t c = 0; c < values.size(); ++c) {
    const double x = values[c];
    if (x == 0) continue;
    nonzero.push_back(c);
    if (!std::isfinite(x)) {
      finite = false;
      continue;
    }
    last = std::min(last, last_bit(x));
    powers = powers && is_power_of_two(x);
    largest = std::max(largest, std::fabs(x));
    sum_abs += std::fabs(x);
  }
}

Rule::Rule(const Contract& contract, Format left, Format right, double float64_errors)
    : left_(left),
      right_(right),
      storage_(contract.attention.policy[Stage::storage]),
      flush_(contract.attention.arithmetic.flush_to_zero),
      gemm_(contract.gemm, flush_),
      operand_(contract.attention.policy[Stage::operand], flush_),
      chain_(contract.gemm_chain),
      float64_errors_(float64_errors) {
  const Arithmetic& how = contract.attention.arithmetic;
  gemm_.eta = max(gemm_.eta, how.kappa * half_smallest_subnormal(gemm_.format));
  u_ = how.kappa * gemm_.u;
  linear_ = how.kappa <= 1;
  wide_ = (loses(gemm_.format, left) ? 1 : 0) + (loses(gemm_.format, right) ? 1 : 0);
  if (loses(operand_.format, storage_)) narrowed_ = 2;
  if (how.mma && operand_.format == Format::tf32) {
    operand_.u = 2 * operand_.u;
    if (!flush_) operand_.eta = 2 * operand_.eta;
  }
  bits_ = precision(gemm_.format);
  if (!how.mma || !adds_blocks_in(*how.mma, gemm_.format)) return;
  bits_ = std::min({bits_, how.mma->frac, fraction_bits(how.mma->out) + 1});
  blocks_.emplace(*how.mma, gemm_.format, precision(left) + precision(right) - 2, !how.mma->only);
}

Terms Rule::terms(const Factor& x, const Factor& w, double bias) const {
  Terms of;
  of.products = static_cast<Index>(x.values.size());
  // The bounds of a row for all its sums, unless it has few elements: then each of their terms is looked at.
  const Factor& sparse = w.nonzero.size() <= few ? w : x;
  if (w.nonzero.empty() || x.nonzero.empty()) {
    of.count = 0;
  } else if (sparse.nonzero.size() <= few) {
    for (const std::size_t c : sparse.nonzero) {
      const double a = x.values[c], b = w.values[c];
      if (a == 0 || b == 0) continue;
      ++of.count;
      of.last = std::min(of.last, last_bit(a) + last_bit(b));
      if (product_may_round() && !is_power_of_two(a) && !is_power_of_two(b)) of.rounded = true;
    }
  } else {
    of.count = static_cast<Index>(std::min(x.nonzero.size(), w.nonzero.size()));
    of.last = x.last + w.last;
    of.rounded = product_may_round() && !x.powers && !w.powers;
  }
  for (const std::size_t c : w.nonzero) {
    const double a = std::fabs(x.values[c]), b = std::fabs(w.values[c]);
    const Ball term = Ball(a) * b;
    of.magnitude += term;
    if (a != 0 && (a < smallest_input() || b < smallest_input())) of.flushed += term;
  }
  of.factors = x.sum_abs + w.sum_abs;
  of.largest = x.largest + w.largest;
  if (bias != 0) {
    of.biased = true;
    ++of.count;
    of.last = std::min(of.last, last_bit(bias));
    of.magnitude += std::fabs(bias);
    if (std::fabs(bias) < smallest_input()) of.flushed += std::fabs(bias);
  }
  return of;
}

Ball Rule::depth(const Terms& terms) const {
  Ball additions = std::max<Index>(0, terms.count - 1);
  if (chain_) additions = min(additions, Ball(chain_->depth(terms.products)) + (terms.biased ? 1 : 0));
  return additions + (terms.rounded ? 1 : 0) + wide_;
}

Ball Rule::lost_by_blocks(const Terms& terms) const {
  const Ball products = terms.count - (terms.biased ? 1 : 0);
  return blocks_->loss(products, products) + (terms.biased ? max(blocks_->cut, gemm_.u) : Ball(0));
}

// E: what roundings and blocks make of a term, relative to it.
Ball Rule::relative(const Terms& terms) const {
  Ball of_sum = blocks_ ? (1 + expm1(lost_by_blocks(terms) * (1 + gemm_.u))) * (1 + compounded(wide_, u_))
                        : 1 + compounded(depth(terms), u_);
  if (!blocks_ && linear_) {
    const Ball additions = std::max<Index>(0, terms.count - 1);
    of_sum = min(of_sum, (1 + compounded((terms.rounded ? 1 : 0) + wide_, u_)) * (1 + additions * u_ * (1 + u_)));
  }
  return of_sum * (1 + compounded(narrowed_, operand_.u)) - 1;
}

// Tells whether every partial sum, in any order, is a number of the accumulator.
bool Rule::exact(const Terms& terms) const {
  const bool normal_only = flush_ || blocks_;
  const int lowest = min_exponent(gemm_.format) - (normal_only ? 0 : precision(gemm_.format) - 1);
  if (wide_ > 0 || narrowed_ > 0 || terms.last < lowest) return false;
  if (!blocks_ && arb_is_zero(depth(terms).get())) return true;
  const Ball least = blocks_ ? smallest_normal(storage_) : 0;  // a unit may take its exponent for a factor's
  const Ball magnitude = terms.magnitude + least * (terms.factors + Ball(terms.count) * least);
  return arb_le(magnitude.get(), power(terms.last + bits_).get()) != 0;
}

Ball Rule::error(const Terms& terms) const {
  if (terms.count == 0) return 0;
  if (exact(terms)) return terms.flushed;
  const Ball e = relative(terms), count = terms.count;
  const bool whole = terms.last >= min_exponent(gemm_.format) - precision(gemm_.format) + 1;
  Ball absolute = terms.flushed;
  if (blocks_) {
    const Ball products = terms.count - (terms.biased ? 1 : 0), least = smallest_normal(storage_);
    absolute += lost_by_blocks(terms) * blocks_->smallest +
                blocks_->aligned(products, products, smallest_normal(storage_)) * (terms.largest + least);
  }
  if (flush_)
    absolute += 2 * count * gemm_.eta;
  else if (!blocks_ && (terms.rounded || wide_ > 0 || narrowed_ > 0 || !whole))
    absolute += count * gemm_.eta;
  if (wide_ > 0) absolute += gemm_.eta * terms.factors;
  if (narrowed_ > 0) absolute += operand_.eta * (terms.factors + count * operand_.eta);
  const Ball own = float64_errors_ * 2 * (Ball(terms.products) + 4) * 0x1p-53 * terms.magnitude;
  return e * terms.magnitude + absolute * (1 + e) + own;
}

bool Rule::overflows(const Terms& terms) const {
  return may_reach(terms.magnitude * (1 + relative(terms)), gemm_.overflow) ||
         (narrowed_ > 0 && may_reach(terms.largest, operand_.overflow)) ||
         (wide_ > 0 && may_reach(terms.largest, gemm_.overflow));
}

}  // namespace attest::certify::mha
