#include "kernels/forget.hpp"

#include "kernels/faults/state.hpp"

namespace attest::kernels {

void forget_calls() noexcept {
  faults::forget_race();
  faults::forget_state_kept();
}

}  // namespace attest::kernels
