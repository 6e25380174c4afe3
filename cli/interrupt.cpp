#include "cli/interrupt.hpp"

#include <csignal>

namespace attest::cli {
namespace {

std::atomic<bool> interrupted{false};

void on_any(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (signal == SIGHUP && ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;  // nohup
    std::signal(signal, handler);
  }
}

}  // namespace

const std::atomic<bool>* end_on_interrupt() {
  on_any([](int) {
    interrupted = true;
    on_any(SIG_DFL);
  });
  return &interrupted;
}

}  // namespace attest::cli
