#pragma once

namespace attest::kernels {

// Drops the state of the faults that keep some of the calling thread's calls: the next call of any kernel here finds it
// as the first one did.
void forget_calls() noexcept;

}  // namespace attest::kernels
