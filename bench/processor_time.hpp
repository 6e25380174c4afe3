#pragma once
#include <algorithm>
#include <array>
#include <ctime>
#include <functional>

namespace attest::bench {

inline double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Processor time of each work, the least of several rounds in which they take turns: other programs on the machine only
// add, and what slows it down for a while slows all of them.
template <std::size_t N>
std::array<double, N> seconds_each(const std::array<std::function<void()>, N>& works, int rounds = 12,
                                   double least_seconds = 4e-3) {
  std::array<double, N> best;
  best.fill(1e300);
  std::array<int, N> count;
  count.fill(1);
  for (int round = 0; round < rounds; ++round)
    for (std::size_t w = 0; w < N; ++w)
      for (;;) {
        const double start = processor_seconds();
        for (int n = 0; n < count[w]; ++n) works[w]();
        const double spent = processor_seconds() - start;
        if (spent >= least_seconds) {
          best[w] = std::min(best[w], spent / count[w]);
          break;
        }
        count[w] *= 2;
      }
  return best;
}

}  // namespace attest::bench
