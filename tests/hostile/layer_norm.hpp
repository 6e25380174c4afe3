// A row of LayerNorm or RMSNorm by docs/layer-norm.md, without code of another room: each operation rounded to the
// format of its stage, and each freedom of the contract taken to its end, to one side.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/hostile/format.hpp"

namespace hostile {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  std::uint64_t operator()(std::uint64_t sides);
  bool one_in(std::uint64_t n) { return (*this)(n) == 0; }

 private:
  std::uint64_t state_;
};

/// The promise, in the words of the page.
struct NormPromise {
  Format storage, sum, statistics, normalise, affine, output, params;
  std::string variance = "two_pass", form = "centred", merge = "none", flush = "no";
  int merge_depth = 0;
  double depth = 0;  // most additions
  double rsqrt_ulp = 1, rsqrt_rel = 0;
  bool norm_rounded = false, clamp = false, unrounded_sum = false, rms = false;
  double kappa = 1;
  int gamma_offset = 0;
  double epsilon = 1e-5;
};

/// The liberties that are taken.
struct NormLiberties {
  int order = 0;  // 0 as they come, 1 backward, 2 by size, 3 by size down, 4 by value, 5 any, 6 by sign
  int tree = 0;   // 0 one by one, 1 in lanes, 2 halves, 3 any tree no deeper than promised
  int lanes = 1;
  int side = 0;       // the root's: -1, 0, 1
  int direction = 0;  // rounding of additions under kappa 3: 0 nearest, 1 toward zero, 2 up, 3 down, 4 in turn
  bool reciprocal = false, fused = false, divide = false, late_gamma = false;
  int flushes = 0;  // 0 nothing, 1 everything that may be, 2 every other
  int merge_form = 0;
  std::uint64_t seed = 1;
};

struct NormRow {
  std::vector<double> out, sum_out;
};
NormRow norm_row(const NormPromise& promise, const NormLiberties& liberties, std::span<const double> x,
                 std::span<const double> residual, std::span<const double> gamma, std::span<const double> beta);

}  // namespace hostile
