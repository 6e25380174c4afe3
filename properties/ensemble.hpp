#pragma once
#include "core/verdict.hpp"
#include "ensemble/steps.hpp"

namespace attest::properties {

// That a statistic has no say where the proven bound has.
Verdict left_to_the_bound();

// The verdict of the law ensemble-error on an outcome: a pass, or a warning.
Verdict ensemble_verdict(const ensemble::Outcome& outcome);

}  // namespace attest::properties
