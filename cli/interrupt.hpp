#pragma once
#include <atomic>

namespace attest::cli {

// From here on the first Ctrl-C (SIGINT) or SIGTERM sets the flag, so that a long verb ends after the problems in flight with
// what it has; a second one of either ends the program at once.
const std::atomic<bool>* end_on_interrupt();

}  // namespace attest::cli
