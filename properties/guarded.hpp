#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/inputs.hpp"
#include "core/rng.hpp"
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

// The contents of an output's guards and gaps in one call of a problem: another word for each call and output, none that an input has, so
// that what a kernel copies from behind its inputs, or kept from behind an earlier output, shows.
inline std::uint64_t fence_of(std::uint64_t seed, std::int64_t call, int output) noexcept {
  return fence_word(
      extend(extend(mix(seed ^ 0x66656E6365u), static_cast<std::uint64_t>(call)), static_cast<std::uint64_t>(output)));
}

// Of an output: guard bytes and gaps still hold what they held, and no element still holds the poison it was given.
// `finite`: it is known to hold neither NaN nor infinity, and so no poison.
std::optional<Evidence> output_violation(const Tensor& tensor, const char* name, bool finite = false);

// Inputs that can be had once more, the same bytes.
struct Redrawn {
  const Inputs& inputs;
  std::function<Inputs()> again;
};

// What the inputs of one trip hold, to compare afterwards: their bytes, or, of large tensors that can be had once more, a hash of
// 64 bits. One at a time in a thread.
class Snapshot {
 public:
  // `redrawn`, if any, must outlive it.
  explicit Snapshot(std::span<const std::vector<Inputs::Named>> calls, const Redrawn* redrawn = nullptr);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // The first input of the next call that differs from what it held; each is put back, so that later calls see what
  // they should.
  std::optional<Evidence> restore(std::span<const Inputs::Named> inputs);

 private:
  // Which of the inputs that can be had once more a large tensor is; nothing of others.
  [[nodiscard]] std::optional<std::size_t> redrawn_member(const Tensor& tensor) const;

  const Redrawn* redrawn_;
  const std::byte* next_;
  std::vector<std::uint64_t> hashes_;  // of the tensors that are told by one, in the order of the calls
  std::size_t next_hash_ = 0;
};

}  // namespace attest::properties
