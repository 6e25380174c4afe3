#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "certify/constants.hpp"
#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/inputs.hpp"

namespace attest::certify::layer_norm {

using attest::layer_norm::Contract;
using attest::layer_norm::Inputs;

// The interval of one element before it is rounded to the output format, and what is permitted besides.
struct Interval {
  Ball exact, lo, hi;
  std::optional<std::string> nonfinite;     // why NaN and infinities are permitted
  std::optional<std::string> undetermined;  // why a finite value is not judged
  bool nan = false;                         // it must be NaN
  std::vector<double> others;               // exact values that are permitted too
};

struct Facts;

// A row under docs/layer-norm.md, sections 1 to 3 and 5; its elements by section 4. One formula after the other,
// without regard to
// speed.
class Row {
 public:
  Row(const Contract& contract, const Inputs& inputs, Index row);
  ~Row();
  [[nodiscard]] Interval element(Index column) const;
  [[nodiscard]] std::vector<Figure> figures() const;

 private:
  std::unique_ptr<Facts> facts_;
};

// Returns the permitted values of sum_out: x + residual, rounded to the sum format and to storage, with and without
// flushing.
std::vector<double> permitted_sums(const Contract& contract, double x, double residual);

}  // namespace attest::certify::layer_norm
