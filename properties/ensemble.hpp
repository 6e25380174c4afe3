#pragma once
#include "core/verdict.hpp"
#include "ensemble/steps.hpp"

namespace attest::properties {

// What the law ensemble-error says of what came of a result.
Verdict ensemble_verdict(const ensemble::Outcome& outcome);

}  // namespace attest::properties
