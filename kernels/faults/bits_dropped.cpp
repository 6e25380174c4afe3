#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

// Blocks of products are aligned with three bits less than the unit keeps.
struct BitsDropped : AmpereSteps {
  static constexpr Mma cut{.block = mma.block, .frac = mma.frac - 3, .out = mma.out, .only = mma.only};
  static void dot(const Call& call, Format format, const double* q, const double* keys, Index width, double* dots) {
    dot_in_blocks(cut, call, format, q, keys, width, dots);
  }
  static void weigh_values(const Call& call, const Piece&, const double* weights, const std::int32_t* open, Index count,
                           const double* values, double* output) {
    add_in_blocks(cut, call, weights, open, count, values, output);
  }
};

}  // namespace

extern constexpr KernelEntry bits_dropped =
    fault<AmpereSteps, BitsDropped>("bits-dropped", "blocks of products are added with three fraction bits less",
                                    "arXiv 2412.19437", "fused-ampere", "accumulator", "qk");

}  // namespace attest::kernels::faults
