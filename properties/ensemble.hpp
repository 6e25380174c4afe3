#pragma once
#include "core/verdict.hpp"
#include "ensemble/steps.hpp"

namespace attest::properties {

// That a statistic has no say where the proven bound has.
Verdict left_to_the_bound();

// What the law ensemble-error says of what came of a result.
Verdict ensemble_verdict(const ensemble::Outcome& outcome);

}  // namespace attest::properties
