#pragma once
#include <chrono>
#include <ostream>
#include <string>

#include "report/observers.hpp"

namespace attest::report {

// The lines of a campaign while it goes on: a line of progress, which on a terminal is written over, and text that
// stays.
class ProgressLine {
 public:
  explicit ProgressLine(TerminalOptions options) : options_(options) {}

  [[nodiscard]] bool live() const noexcept { return options_.live; }

  // Tells whether the last one that was due is long enough ago.
  bool is_due() {
    const auto now = Clock::now();
    const double interval = options_.live ? 0.2 : 10;
    if (std::chrono::duration<double>(now - last_).count() < interval) return false;
    last_ = now;
    return true;
  }
  void show(const std::string& line) {
    if (options_.live) {
      options_.progress << "\r\033[K" << line << std::flush;
      shown_ = true;
    } else {
      options_.progress << line << std::endl;
    }
  }
  void say(const std::string& text) {
    if (shown_) options_.progress << "\r\033[K" << std::flush;
    shown_ = false;
    if (!options_.quiet) options_.out << text << std::flush;
  }

 private:
  using Clock = std::chrono::steady_clock;
  TerminalOptions options_;
  Clock::time_point last_ = Clock::now();
  bool shown_ = false;
};

}  // namespace attest::report
