#pragma once

namespace attest::kernels {

// Drops what the faults that keep state from call to call keep of the calling thread's calls: the next call of any kernel
// here finds it as the first one did.
void forget_calls() noexcept;

}  // namespace attest::kernels
