#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "oracle/layer_norm/statistics.hpp"
#include "oracle/outcome.hpp"

namespace attest::oracle::layer_norm {

struct Params;

// Decides elements by their whole intervals, eight at a time and in double: where the ends that double gives leave no doubt of what
// interval_of() would say. Of what is close to an end it knows nothing (docs/layer-norm.md, section 7).
class DecideRow {
 public:
  DecideRow(const Numbers& numbers, const Params& params, const Rounding& round);

  // Of a row whose input is finite. `decided` holds whole lanes.
  void operator()(const SourceRow& source, const Statistics& row, std::span<const double> got,
                  std::span<std::uint8_t> decided);

 private:
  void prepare();

  const Numbers& m_;
  const Params& params_;
  const Rounding& round_;
  bool prepared_ = false;
  // Of each column, in whole lanes.
  std::vector<double> gamma_, gamma_error_, gamma_flushed_, gamma_most_, product_error_, beta_, beta_error_, sum_error_,
      live_, beta_left_, zero_left_;
  std::vector<double> d_, error_;
};

}  // namespace attest::oracle::layer_norm
