#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/inputs.hpp"
#include "core/tensor.hpp"
#include "core/verdict.hpp"

// What a trip to a subject of any operation is watched by.
namespace attest::properties {

// Adds the time until its end to `total`.
class Stopwatch {
 public:
  explicit Stopwatch(std::int64_t& total) noexcept : total_(total) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { total_ += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t& total_;
  Clock::time_point start_ = Clock::now();
};

// Of an output: guard bytes and gaps still hold what they held, and no element still holds the poison it was given.
std::optional<Evidence> output_violation(const Tensor& tensor, const char* name);

// The bytes of the inputs of one trip, to compare afterwards. One at a time in a thread.
class Snapshot {
 public:
  explicit Snapshot(std::span<const std::vector<Inputs::Named>> calls);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // The first input of the next call that differs from the bytes it had; each is put back, so that later calls see what
  // they should.
  std::optional<Evidence> restore(std::span<const Inputs::Named> inputs);

 private:
  const std::byte* next_;
};

}  // namespace attest::properties
