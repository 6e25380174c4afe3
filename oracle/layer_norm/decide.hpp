#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "oracle/layer_norm/statistics.hpp"
#include "oracle/outcome.hpp"

namespace attest::oracle::layer_norm {

struct Params;

// Decides elements by their whole intervals, eight at a time and in double, where the ends that double gives leave no
// doubt of the result of interval_of(). It decides nothing close to an end (docs/layer-norm.md, section 7).
class DecideRow {
 public:
  DecideRow(const Numbers& numbers, const Params& params, const Rounding& round);

  // Decides a row whose input is finite. `decided` holds whole lanes.
  void operator()(const SourceRow& source, const Statistics& row, std::span<const double> got,
                  std::span<std::uint8_t> decided);

 private:
  void prepare();

  const Numbers& m_;
  const Params& params_;
  const Rounding& round_;
  bool prepared_ = false;
  // Numbers of each column, in whole lanes.
  std::vector<double> gamma_, gamma_error_, gamma_flushed_, gamma_most_, product_error_, beta_, beta_error_, sum_error_,
      live_, beta_left_, zero_left_;
  std::vector<double> d_, error_;
};

}  // namespace attest::oracle::layer_norm
