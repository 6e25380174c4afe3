// Compiled with products fused with their sums where the processor can: those of this file's callers are exact.
#include "graph/tiles_body.hpp"

namespace attest::graph {

void multiply_exact(const Block& block) noexcept { multiply(block); }

}  // namespace attest::graph
