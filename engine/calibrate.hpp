#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/grade/emulated.hpp"
#include "engine/ops.hpp"
#include "oracle/calibration.hpp"

// What conforming kernels give, measured: where the thresholds of the statistical tiers come from.
namespace attest::engine {

struct CalibrateOptions {
  const Op* op = nullptr;  // one that has statistical tiers
  DrawEmulated kernel;     // emulated_kernel()
  std::vector<Policy> policies;
  std::uint64_t kernels = 40;  // per policy and class
  std::uint64_t cases = 40;    // problems per kernel and class
  std::uint64_t seed = 1;
  int jobs = 1;
  std::function<void(std::string_view what, std::size_t done, std::size_t of)> progress;  // may be empty
  // Set by a signal handler: leaves out the policy in progress and the rest.
  const std::atomic<bool>* interrupt = nullptr;
};

// Depends on the options alone, but for `jobs` and an interrupt. Throws Error(internal) if a kernel that keeps its contract
// leaves the proven interval: then the oracle or the emulator is wrong, and no threshold is worth anything.
oracle::Calibration calibrate(const CalibrateOptions& options);

}  // namespace attest::engine
