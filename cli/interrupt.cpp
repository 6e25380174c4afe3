#include "cli/interrupt.hpp"

#include <csignal>

namespace attest::cli {
namespace {

std::atomic<bool> interrupted{false};

void on_either(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, handler);
}

}  // namespace

const std::atomic<bool>* end_on_interrupt() {
  on_either([](int) {
    interrupted = true;
    on_either(SIG_DFL);
  });
  return &interrupted;
}

}  // namespace attest::cli
