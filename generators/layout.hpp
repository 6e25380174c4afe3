#pragma once
#include "core/problem.hpp"
#include "generators/domain.hpp"
#include "generators/source.hpp"

namespace attest {

// Draws the layouts of q, k, v, out and the masks of a problem whose dtype and masks are set: all contiguous in half of
// the problems; in a quarter q, k and v in one other layout, out mostly too; else each in its own.
void draw_layouts(Problem& problem, const Domain& domain, Source& source);

}  // namespace attest
