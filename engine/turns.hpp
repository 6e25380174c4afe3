#pragma once
#include <limits>
#include <mutex>
#include <vector>

namespace attest::engine {

// Decides which of several threads may begin a case where all ask one device. The device takes turns between processes,
// so that short calls of several do less than those of one; a thread that waits for a plan or for a new process leaves
// it idle. So another begins once nobody has begun for a while. For any number of threads.
class Turns {
 public:
  // `patience`: seconds after which a case is taken for one that leaves the device to others.
  Turns(int threads, double patience) : patience_(patience), begun_(static_cast<std::size_t>(threads), never) {}

  // Begins a case of `thread` now, unless another has just begun one.
  [[nodiscard]] bool take(int thread, double now) {
    const std::lock_guard lock(guard_);
    for (std::size_t other = 0; other < begun_.size(); ++other)
      if (other != static_cast<std::size_t>(thread) && now - begun_[other] < patience_) return false;
    begun_[static_cast<std::size_t>(thread)] = now;
    return true;
  }
  // Begins one whatever others do.
  void begin(int thread, double now) { set(thread, now); }
  void end(int thread) { set(thread, never); }

 private:
  static constexpr double never = -std::numeric_limits<double>::infinity();
  void set(int thread, double now) {
    const std::lock_guard lock(guard_);
    begun_[static_cast<std::size_t>(thread)] = now;
  }

  const double patience_;
  std::mutex guard_;
  std::vector<double> begun_;
};

}  // namespace attest::engine
