// The loops for the instruction set that every machine has.
#include "kernels/loops_body.hpp"

namespace attest::kernels {
extern constexpr Loops least_loops = loops_for<Isa::least>();
}  // namespace attest::kernels
