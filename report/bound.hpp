#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/tolerance.hpp"

namespace attest::report {

// One tolerance to paste, and how blind it is.
struct Tolerance {
  double atol = 0, rtol = 0;  // three significant digits, rounded up
  engine::Blindness blind;
};

// The content of `attest bound`: the radii, and tolerances that reject no correct result.
struct BoundReport {
  engine::Spread spread;
  std::vector<double> absolute,
      relative;  // radii at 50 %, 90 %, 99 % and 100 % of the elements; relative to |y| where y != 0
  Tolerance kernels_sum, kernels_sum_atol_alone, kernels_either, exact_sum, exact_sum_atol_alone;
  struct OfStage;
  std::vector<OfStage> stages;  // on the way to out
};
struct BoundReport::OfStage {
  std::string stage;
  BoundReport report;
};

// rtol: the user's own; absent, the median of what two kernels may differ by, relative to the smaller.
BoundReport bound_report(engine::Spread spread, std::optional<double> rtol,
                         std::vector<engine::StageSpread> stages = {});

std::string bound_text(const BoundReport& report, const ops::Problem& problem, const ops::Contract& contract);
// The object that --json writes, but for `exit`.
nlohmann::ordered_json bound_json(const BoundReport& report, const ops::Problem& problem,
                                  const ops::Contract& contract);
// The same of inputs that were saved elsewhere.
std::string bound_text(const BoundReport& report, const ops::SavedCall& call, const ops::Contract& contract);
nlohmann::ordered_json bound_json(const BoundReport& report, const ops::SavedCall& call, const ops::Contract& contract);

}  // namespace attest::report
