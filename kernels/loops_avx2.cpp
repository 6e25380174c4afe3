// Compiled for AVX2; holds nothing that other files could take for theirs.
#include "kernels/loops_body.hpp"

namespace attest::kernels {
extern constexpr Loops avx2_loops = loops_for<Isa::avx2>();
}  // namespace attest::kernels
