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

// The watches over a trip to a subject of any operation.
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

// Returns the contents of an output's guards and gaps in one call of a problem: another word for each call and output,
// none that an input has, so that a kernel shows that copies from behind its inputs, or keeps memory from behind an
// earlier output.
inline std::uint64_t fence_of(std::uint64_t seed, std::int64_t call, int output) noexcept {
  return fence_word(
      extend(extend(mix(seed ^ 0x66656E6365u), static_cast<std::uint64_t>(call)), static_cast<std::uint64_t>(output)));
}

// Returns the evidence that an output's guard bytes or gaps changed, or that an element still holds the poison it was
// given. `finite`: the output is known to hold neither NaN nor infinity, and so no poison.
std::optional<Evidence> output_violation(const Tensor& tensor, const char* name, bool finite = false);

// Inputs that can be had once more, the same bytes.
struct Redrawn {
  const Inputs& inputs;
  std::function<Inputs()> again;
};

// A record of the inputs of one trip, to compare afterwards: their bytes, or a hash of 64 bits for large tensors that
// can be had once more. One at a time in a thread.
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
  // Returns the place of a large tensor among the inputs that can be had once more; nothing for others.
  [[nodiscard]] std::optional<std::size_t> redrawn_member(const Tensor& tensor) const;

  const Redrawn* redrawn_;
  const std::byte* next_;
  std::vector<std::uint64_t> hashes_;  // those of the tensors that a hash stands for, in the order of the calls
  std::size_t next_hash_ = 0;
};

}  // namespace attest::properties
