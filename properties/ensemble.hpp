#pragma once
#include "core/verdict.hpp"
#include "ensemble/steps.hpp"

namespace attest::properties {

// Returns the skip for an element that leaves its proven interval: a statistic has no say there.
Verdict left_to_the_bound();

// The verdict of the law ensemble-error on an outcome: a pass, or a warning.
Verdict ensemble_verdict(const ensemble::Outcome& outcome);

}  // namespace attest::properties
