#pragma once

// Functions that drop the state that a fault keeps from call to call on the calling thread.
namespace attest::kernels::faults {

void forget_race() noexcept;
void forget_state_kept() noexcept;

}  // namespace attest::kernels::faults
