#pragma once
#include <memory>

#include "cli/settings.hpp"
#include "ops/op.hpp"
#include "oracle/calibration.hpp"

namespace attest::cli {

// --calibration: thresholds of the statistical tiers.
Option calibration_option();
// The shipped data of the operation that the file is of, with its policies in place of their own; null if it is not given. Throws
// Error(usage). Trials of other operations have what was shipped.
std::shared_ptr<const oracle::Calibration> read_calibration(const Settings& settings);
// Throws Error(usage) where all problems are of another operation.
void require_calibration_of(const ops::Op& op, const oracle::Calibration* calibration);

}  // namespace attest::cli
