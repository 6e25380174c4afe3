#include "cli/interrupt.hpp"

#include <csignal>
#include <ctime>
#include <initializer_list>

namespace attest::cli {
namespace {

constexpr double one_request_seconds = 0.5;

std::atomic<bool> interrupted{false};
std::atomic<double> first{0};  // seconds by the monotonic clock
static_assert(std::atomic<double>::is_always_lock_free, "a handler asks it");

double seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void on_signal(int signal) {
  if (!interrupted.exchange(true)) {
    first = seconds();
    return;
  }
  // `timeout` sends its signal to the program and to the group that it is in, a shell that ends SIGTERM and SIGHUP: one
  // request.
  if (seconds() - first < one_request_seconds) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

const std::atomic<bool>* end_on_interrupt() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (signal == SIGHUP && ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;  // nohup
    std::signal(signal, on_signal);
  }
  return &interrupted;
}

}  // namespace attest::cli
