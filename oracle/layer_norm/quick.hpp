#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "oracle/layer_norm/statistics.hpp"
#include "oracle/outcome.hpp"

namespace attest::oracle::layer_norm {

struct Params;

// Accepts elements that lie in a part of their intervals that needs no sort and no long double. What it accepts,
// interval_of() calls
// inside and not wide; of what it leaves, it knows nothing (docs/layer-norm.md, section 7).
class QuickRow {
 public:
  QuickRow(const Numbers& numbers, const Params& params, double epsilon, const Rounding& round);

  // Whether it speaks of this row at all; then bit i mod 8 of accepted[i / 8] is set for elements i that are inside,
  // and `all` says
  // whether all are. `got` holds whole lanes.
  bool accept(const SourceRow& row, std::span<const double> got, std::uint8_t* accepted, bool& all);

 private:
  [[nodiscard]] double least_mean_error(std::span<const double> x, double magnitudes, double mean,
                                        double variance) const;

  const Numbers& m_;
  const double epsilon_;
  const Rounding& round_;
  bool speaks_;
  std::vector<double> gamma_, beta_;  // in whole lanes, gamma with its offset; 1 and 0 where absent
  double largest_beta_ = 0;
};

}  // namespace attest::oracle::layer_norm
