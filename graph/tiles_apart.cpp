#include "graph/tiles_body.hpp"

namespace attest::graph {

void multiply_apart(const Block& block) noexcept { multiply(block); }

}  // namespace attest::graph
