#pragma once
#include <vector>

#include "kernels/layer_norm/emulated/emulator.hpp"

// Mean and variance of a row, by a scheme: sums in every order and shape, welford's merges.
namespace attest::emulator::layer_norm {

struct Moments {
  double mean = 0, variance = 0;
};

struct Seen {
  const std::vector<double>& x;  // in the order in which they come together
  double pivot;                  // pivot of `shifted`
  double count;                  // divisor of sums
  bool rms;
};

Moments moments_of(const Seen& seen, const attest::layer_norm::Arithmetic& how, const Scheme& scheme,
                   const Machine& machine);

}  // namespace attest::emulator::layer_norm
