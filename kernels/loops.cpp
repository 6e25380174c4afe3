#include "kernels/loops.hpp"

namespace attest::kernels {

extern const Loops least_loops;
#ifdef ATTEST_X86_KERNEL_LOOPS
extern const Loops avx2_loops, avx512_loops;
#endif

const Loops* loops_of(Isa isa) noexcept {
  if (isa == Isa::least) return &least_loops;
#ifdef ATTEST_X86_KERNEL_LOOPS
  __builtin_cpu_init();
  if (isa == Isa::avx2 && __builtin_cpu_supports("avx2")) return &avx2_loops;
  if (isa == Isa::avx512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return &avx512_loops;
#endif
  return nullptr;
}

namespace {

const Loops* widest() noexcept {
  for (const Isa isa : {Isa::avx512, Isa::avx2})
    if (const Loops* loops = loops_of(isa)) return loops;
  return &least_loops;
}

// Who calls before the program has started has the least, which gives the same bits.
constinit const Loops* chosen = &least_loops;
[[maybe_unused]] const bool found = (chosen = widest()) != nullptr;

}  // namespace

const Loops& loops() noexcept { return *chosen; }
void use_loops(const Loops& loops) noexcept { chosen = &loops; }

}  // namespace attest::kernels
