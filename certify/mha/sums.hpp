#pragma once
#include <optional>
#include <vector>

#include "certify/constants.hpp"
#include "core/mha/contract.hpp"

namespace attest::certify::mha {

using attest::mha::Contract;

// The facts of the terms of one sum of products and its bias (docs/mha.md, section 1).
struct Terms {
  Index products = 0;    // products that the chain counts
  Index count = 0;       // n': terms that are not 0, the bias included
  bool biased = false;   // the bias is one of them
  int last = 1 << 20;    // every term is a multiple of 2^last
  bool rounded = false;  // some product may not fit gemm
  Ball magnitude;        // A
  Ball factors;          // sums of the magnitudes of both factors
  Ball flushed;          // total of the terms of subnormal inputs
  Ball largest;          // largest magnitudes of both factors, added up
};

// The largest n such that x is a multiple of 2^n.
int last_bit(double x);
bool is_power_of_two(double x);

// A row of x or of a matrix of weights.
struct Factor {
  explicit Factor(std::vector<double> the_values);
  std::vector<double> values;
  std::vector<std::size_t> nonzero;
  int last = 1 << 20;
  bool powers = true, finite = true;
  double largest = 0;
  Ball sum_abs;
};

// The way in which one of a contract's products is summed, for factors of two formats.
class Rule {
 public:
  // `float64_errors` is that of Constants.
  Rule(const Contract& contract, Format left, Format right, double float64_errors);

  // Returns g. There is no bound where overflows() is true.
  [[nodiscard]] Ball error(const Terms& terms) const;
  [[nodiscard]] bool overflows(const Terms& terms) const;
  // Returns the terms of x w + bias, whatever the order of the sum.
  [[nodiscard]] Terms terms(const Factor& x, const Factor& w, double bias) const;
  [[nodiscard]] bool product_may_round() const {
    return precision(left_) + precision(right_) > precision(gemm_.format);
  }
  [[nodiscard]] double smallest_input() const { return flush_ ? smallest_normal(storage_) : 0; }

 private:
  [[nodiscard]] Ball depth(const Terms& terms) const;
  [[nodiscard]] Ball lost_by_blocks(const Terms& terms) const;
  [[nodiscard]] Ball relative(const Terms& terms) const;
  [[nodiscard]] bool exact(const Terms& terms) const;

  Format left_, right_, storage_;
  bool flush_;
  Unit gemm_, operand_;
  Ball u_;               // kappa u_gemm
  bool linear_ = false;  // additions round to nearest
  std::optional<attest::mha::Chain> chain_;
  std::optional<Blocks> blocks_;
  int bits_ = 0;      // that an accumulator and what adds to it keep
  int wide_ = 0;      // factors that gemm does not hold
  int narrowed_ = 0;  // factors that are rounded to operand
  double float64_errors_;
};

}  // namespace attest::certify::mha
