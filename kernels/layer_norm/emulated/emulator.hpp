#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/inputs.hpp"
#include "kernels/layer_norm/emulated/machine.hpp"

// layer_norm in emulated arithmetic: every operation is rounded to the format that the contract names, by a scheme
// drawn among those that the contract permits, which takes each of its numbers to its end. Slow and plain; knows
// nothing of the oracle.
namespace attest::emulator::layer_norm {

using attest::layer_norm::Contract;
using attest::layer_norm::Inputs;
using attest::layer_norm::Stage;

enum class Order : std::uint8_t { forward, backward, shuffled, by_magnitude, by_magnitude_down, by_value };
// The way in which the elements of a row come together.
enum class Shape : std::uint8_t {
  chain,    // one by one
  dealt,    // in lanes, element i to lane i mod lanes
  chunked,  // in lanes, a run of elements each
  halves,   // halves of halves, down to `block` elements
};
// The error of a reciprocal root, within the bound of the contract. `exact`: 1 over a root, each rounded; `nearest`:
// rounded once.
enum class RootError : std::uint8_t { exact, up, down, random, nearest };

// The defect of the kernel, if any. Detection is measured with it.
enum class Defect : std::uint8_t {
  none,
  one_pass,  // in place of the contract's way
  statistics_f16,
  statistics_bf16,
  all_f16,
  all_bf16,
  epsilon_outside,
  no_epsilon,
  last_element_missed,  // by the statistics
  count_less_one,       // the variance is divided by n - 1
  mean_kept,            // the mean is not subtracted from what is squared
  root_off,             // by 1e-3
  gamma_shifted,        // by one column
};

struct Scheme {
  Order order = Order::forward;
  Shape shape = Shape::chain;
  Index lanes = 1, block = 1;
  bool chain_of_lanes = false;  // partial results are joined one by one, not in pairs
  bool reciprocal_count = false, fma = false;
  bool divide_by_root = false;  // (x - m) / sqrt(v + epsilon)
  RootError root = RootError::exact;
  double root_share = 1;  // share of the permitted error
  Direction sums = Direction::nearest;
  bool flush_x = false, flush_params = false, flush_results = false;
  bool flush_every_other_input = false;
  bool seen_as_statistics = false;  // the normalised value takes the x that statistics saw
  bool gamma_added_late = false;    // t gamma + t in place of t (1 + gamma)
  int merge_form = 0;               // in which order the factors of a merge meet
  std::uint64_t seed = 1;
  Defect defect = Defect::none;
};

// A scheme that keeps `contract` on rows of n elements.
Scheme draw_scheme(const Contract& contract, Index n, bool rms, std::uint64_t seed);
// The most additions that any element of its sums passes through.
double additions_of(const Scheme& scheme, Index n);

// One row. `x` and `residual` (empty: none) are numbers of the storage format, gamma and beta (empty: none) of theirs.
struct RowCall {
  std::span<const double> x, residual, gamma, beta;
  Format params;
  double epsilon;
  bool rms;
};
void run_row(const RowCall& call, const Contract& contract, const Scheme& scheme, std::span<double> out);

// Every row of `out`, and of `sum_out` if present.
void run(const Inputs& inputs, const Contract& contract, const Scheme& scheme, Tensor& out, Tensor& sum_out);
// The same of some rows of out, one after the other.
std::vector<double> run_rows(const Inputs& inputs, const Contract& contract, const Scheme& scheme,
                             std::span<const Index> rows);

}  // namespace attest::emulator::layer_norm
