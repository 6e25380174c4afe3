#pragma once
#include "core/problem.hpp"
#include "generators/domain.hpp"
#include "generators/source.hpp"

namespace attest {

// Draws the storage format, each of the domain's equally often. A plan of a subject depends on it, as on the shape.
void draw_dtype(Problem& problem, const Domain& domain, Source& source);

// Draws which log-sum-exp is asked for and how many threads the subject may use.
void draw_outputs(Problem& problem, const Domain& domain, Source& source);

}  // namespace attest
