#pragma once
#include <cstdint>
#include <exception>
#include <mutex>

namespace attest::engine {

// Runs body(i) for 0..count-1 on `jobs` threads, the same numbers on the same thread each time. Throws what the body threw
// first.
template <class Body>
void on_all_threads(std::uint64_t count, int jobs, Body&& body) {
  std::exception_ptr error;
  std::mutex guard;
#pragma omp parallel for schedule(static, 1) num_threads(jobs)
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
    try {
      body(static_cast<std::uint64_t>(i));
    } catch (...) {
      const std::lock_guard lock(guard);
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace attest::engine
