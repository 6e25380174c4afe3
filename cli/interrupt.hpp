#pragma once
#include <atomic>

namespace attest::cli {

// Sets the flag on the first Ctrl-C (SIGINT), SIGTERM or SIGHUP (unless it is ignored, as under nohup) from here on, so
// that a long verb ends after the problems in flight with what it has. A second one of any, half a second later or
// more, ends the program at once.
const std::atomic<bool>* end_on_interrupt();

}  // namespace attest::cli
