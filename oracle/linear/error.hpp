#pragma once
#include <limits>
#include <optional>
#include <vector>

#include "core/mha/contract.hpp"
#include "oracle/linear/matrix.hpp"
#include "oracle/sums.hpp"

namespace attest::oracle {

// The rule by which a contract lets a product of two matrices be summed.
struct SumRule {
  SumRule() = default;
  // Makes the rule for factors of these two formats.
  SumRule(const mha::Contract& contract, Format left, Format right);

  Format accumulator = Format::f32;
  double kappa = 1;
  std::optional<mha::Chain> chain;
  Format left = Format::f32, right = Format::f32;
  BlockSums blocks;     // the blocks of tensor cores, if any
  int exact_bits = 24;  // a sum of so many is exact
  bool flush = false;
  double smallest_input = 0;  // smaller ones may be flushed as they are read
  double smallest_factor = 0;
  int narrowed = 0;  // factors that are rounded to the operand's format
  double u_operand = 0, eta_operand = 0;
  double overflowing_factor =
      std::numeric_limits<double>::infinity();  // the least that the accumulator or the operand's format does not hold

  // Tells whether a product of two factors, none a power of two, may not fit the accumulator.
  [[nodiscard]] bool products_round() const noexcept {
    return precision(left) + precision(right) > precision(accumulator);
  }
  // Upper bounds for every sum of so many terms, the bias included: its error relative to A, and its absolute error
  // beside that where no factor is larger than `largest`.
  [[nodiscard]] double most_relative(double terms) const noexcept;
  [[nodiscard]] double most_absolute(double terms, double largest) const noexcept;
  // Tells whether sums differ from additions of products rounded one by one, or inputs may be read as other numbers
  // than they are.
  [[nodiscard]] bool unusual() const noexcept { return blocks.any() || flush || narrowed > 0; }
  // The number of factors that the accumulator's format does not hold: they may be rounded to it first.
  [[nodiscard]] int wide_factors() const noexcept;
};

// The facts of the terms of one sum, zeros left out.
struct Terms {
  Index products = 0;      // products that the chain counts
  double count = 0;        // terms, a bias included; or more
  bool biased = false;     // one of them is a bias
  int last_bit = 1 << 20;  // the last bit of any term, or lower
  bool rounded = false;    // a product may not fit the accumulator
  double magnitude = 0;    // the sum of |terms|, at least
  double factors = 0;      // the sum of |factors|, at least
  double largest = 0;      // the largest magnitudes of both factors, added up
  double flushed = 0;      // the total of the terms of inputs that may be flushed, at least
};

// The errors of sums of up to so many terms.
class SumErrors {
 public:
  SumErrors(const SumRule& rule, Index most_terms);
  // Returns how far the computed sum may lie from the exact one, whatever the order: g of docs/mha.md, section 1. 0
  // where nothing rounds.
  [[nodiscard]] double operator()(const Terms& terms) const;
  // Tells whether some partial sum, or a factor as it is rounded, may overflow.
  [[nodiscard]] bool overflows(const Terms& terms) const;

 private:
  [[nodiscard]] Index depth(const Terms& terms) const;
  [[nodiscard]] double lost_by_blocks(const Terms& terms) const;
  [[nodiscard]] double relative(const Terms& terms) const;
  [[nodiscard]] bool exact(const Terms& terms) const;

  SumRule rule_;
  int wide_;
  std::vector<double> relative_;         // by the number of roundings that a term passes through
  double of_wide_ = 0, of_operand_ = 0;  // change of a term by the rounding of its factors alone
};

// x w^T + bias with its errors. `bias` may be null.
struct Projected {
  Matrix value, error;
  Matrix magnitude;           // sums of |terms|
  std::vector<char> unknown;  // per row of x and column: a partial sum may be infinite, or an input is
  [[nodiscard]] bool is_unknown(Index i, Index n) const noexcept {
    return unknown[static_cast<std::size_t>(i * value.columns() + n)] != 0;
  }
};
Projected project(const SumRule& rule, const Matrix& x, const Matrix& w, const double* bias);

}  // namespace attest::oracle
