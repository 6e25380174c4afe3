#pragma once
#include "core/problem.hpp"
#include "generators/domain.hpp"
#include "generators/source.hpp"

namespace attest {

// Draws the form of the call: all forms at their first value in a quarter of the problems; else each at its first value
// half of the time, and at the others equally often.
void draw_forms(Problem& problem, const Domain& domain, Source& source);

}  // namespace attest
