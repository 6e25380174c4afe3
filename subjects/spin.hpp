#pragma once
#include <algorithm>
#include <chrono>
#include <thread>

namespace attest {

// The waiting of an end of a mailbox (mailbox.hpp): it looks again and again, giving the processor away between looks,
// for as long as that has paid of late, and no longer than `longest`; then it blocks. Where waits are long, or the
// processor is wanted by others, it blocks at once.
class Spin {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds longest{100};

  // Tells whether `ready` came to be true. A wait that goes on is told by waited().
  template <class Ready>
  bool until(Ready ready) {
    if (ready()) return true;
    begin_ = Clock::now();
    if (usual_ > longest || skip_ > 0) {
      if (skip_ > 0) --skip_;
      return false;
    }
    for (Clock::time_point now = begin_, before = begin_; now - begin_ < longest; before = now) {
      for (int look = 0; look < looks_between_yields; ++look)
        if (ready()) {
          now = Clock::now();
          note(now - begin_);
          rest_ = std::max(rest_ / 2, least_rest);
          return true;
        }
      std::this_thread::yield();
      now = Clock::now();
      if (now - before > lost) break;  // somebody else had the processor
    }
    skip_ = rest_;
    rest_ = std::min(rest_ * 2, most_rest);
    return ready();
  }

  // Says that the wait which until() left is over.
  void waited() { note(Clock::now() - begin_); }

 private:
  static constexpr std::chrono::microseconds lost{50};
  static constexpr int looks_between_yields = 8, least_rest = 4, most_rest = 256;

  void note(Clock::duration wait) { usual_ += (std::min<Clock::duration>(wait, 16 * longest) - usual_) / 8; }

  Clock::time_point begin_{};
  Clock::duration usual_{};
  int skip_ = 0, rest_ = least_rest;  // waits that do not spin: now, and after the next spin in vain
};

}  // namespace attest
