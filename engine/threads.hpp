#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

namespace attest::engine {

inline bool is_set(const std::atomic<bool>* interrupt) noexcept { return interrupt && interrupt->load(); }

// Runs body(i) for 0..count-1 on `jobs` threads, the same numbers on the same thread each time; begins none once
// `interrupt` is set. Throws what the body threw first.
template <class Body>
void on_all_threads(std::uint64_t count, int jobs, Body&& body, const std::atomic<bool>* interrupt = nullptr) {
  std::exception_ptr error;
  std::mutex guard;
#pragma omp parallel for schedule(static, 1) num_threads(jobs)
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
    if (is_set(interrupt)) continue;
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
