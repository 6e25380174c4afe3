#pragma once
#include "core/problem.hpp"
#include "generators/domain.hpp"
#include "generators/source.hpp"

namespace attest {

// Draws which keys take part in which rows, of a problem whose shape is set: causal, align, windows, keep, bias and
// lengths, each independently of the others, so that every combination comes up. A field that means nothing beside the
// others (axes of an absent mask) stays at its simplest.
void draw_masks(Problem& problem, const Domain& domain, Source& source);

// Draws anew the contents of the present masks and lengths. Their presence, types and layouts stay.
void redraw_masks(Problem& problem, const Domain& domain, Source& source);

}  // namespace attest
