#pragma once
#include <omp.h>

#include <algorithm>
#include <exception>

#include "kernels/call.hpp"

namespace attest::kernels {

// Returns the number of threads that a call is worth: at most the number it permits, and one inside another team or
// where waking a team would cost more than the work. Work is in multiply-adds; 2^16 take some 20 microseconds.
inline int thread_count(const Call& call, Index tasks) noexcept {
  constexpr double small_when_asked = 1 << 16, small = 1 << 20;
  const bool asked = call.threads > 0;
  if (tasks < 2 || call.work() < (asked ? small_when_asked : small) || omp_in_parallel()) return 1;
  return static_cast<int>(std::min<Index>(asked ? call.threads : omp_get_max_threads(), tasks));
}

// Returns the number of tasks for a head's `blocks` of rows: one, which brings in keys once for all, but where there
// are too few heads for the threads.
inline Index parts_of_heads(Index heads, Index blocks, int threads) noexcept {
  if (blocks == 0 || heads == 0) return blocks;
  return threads == 1 ? 1 : std::clamp<Index>(4 * threads / heads, 1, blocks);
}

// Runs task(t) for t in [0, tasks), each on one thread. Rethrows the first exception after all have ended.
template <class Task>
void for_each_task(Index tasks, int threads, Task task) {
  if (threads == 1) {
    for (Index t = 0; t < tasks; ++t) task(t);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (Index t = 0; t < tasks; ++t) {
    try {
      task(t);
    } catch (...) {
#pragma omp critical(attest_kernels_failure)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace attest::kernels
