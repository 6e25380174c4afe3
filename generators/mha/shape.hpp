#pragma once
#include "generators/mha/domain.hpp"
#include "generators/source.hpp"

namespace attest::mha {

// Fills in the extents, and whether memory is x. Throws Error(usage) if what the subject supports leaves no shape.
void draw_shape(Problem& problem, const Domain& domain, Source& source);

}  // namespace attest::mha
