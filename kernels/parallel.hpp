#pragma once
#include <omp.h>

#include <algorithm>
#include <exception>

#include "kernels/call.hpp"

namespace attest::kernels {

// How many threads a call is worth: at most what it permits, one where starting a team would cost more than the work.
inline int thread_count(const Call& call, Index tasks) noexcept {
  constexpr double small = 1 << 20;  // multiply-adds: about a quarter of a millisecond
  int threads = call.threads;
  if (threads <= 0) threads = call.work() < small ? 1 : omp_get_max_threads();
  return static_cast<int>(std::clamp<Index>(threads, 1, std::max<Index>(tasks, 1)));
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
