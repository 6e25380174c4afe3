#pragma once
#include <cstdint>
#include <span>

#include "oracle/layer_norm/statistics.hpp"
#include "oracle/outcome.hpp"

namespace attest::oracle::layer_norm {

struct Params;

// Accepts elements that lie in a part of their intervals that needs no sort and no long double. What it accepts, interval_of() calls
// inside and not wide; what it leaves, it knows nothing of.
class QuickRow {
 public:
  QuickRow(const Contract& contract, const Numbers& numbers, const Params& params, const Rounding& round);

  // Whether it speaks of this row at all; then accepted[i] is 1 for elements that are inside.
  bool accept(const SourceRow& row, std::span<const double> got, std::span<std::uint8_t> accepted);

 private:
  const Numbers& m_;
  const Params& params_;
  const Rounding& round_;
  bool speaks_;
};

}  // namespace attest::oracle::layer_norm
