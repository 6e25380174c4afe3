#include "cli/interrupt.hpp"

#include <csignal>

namespace attest::cli {
namespace {

std::atomic<bool> interrupted{false};

}  // namespace

const std::atomic<bool>* end_on_interrupt() {
  for (const int signal : {SIGINT, SIGTERM})
    std::signal(signal, [](int which) {
      interrupted = true;
      std::signal(which, SIG_DFL);
    });
  return &interrupted;
}

}  // namespace attest::cli
