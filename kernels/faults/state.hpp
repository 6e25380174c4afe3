#pragma once

// Of each fault that keeps state from call to call: drops what it keeps on the calling thread.
namespace attest::kernels::faults {

void forget_race() noexcept;
void forget_state_kept() noexcept;

}  // namespace attest::kernels::faults
