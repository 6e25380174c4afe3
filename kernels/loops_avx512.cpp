// Compiled for AVX-512; holds nothing that other files could take for theirs.
#include "kernels/loops_body.hpp"

namespace attest::kernels {
extern constexpr Loops avx512_loops = loops_for<Isa::avx512>();
}  // namespace attest::kernels
