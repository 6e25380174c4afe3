#include "kernels/layer_norm/fused.hpp"

namespace attest::kernels::layer_norm::faults {
namespace {

struct Bf16Reduce : TwoPass {
  template <class Real, class Round, class Term>
  static Real sum(Round, Index n, Term term) {
    return sum_in_lanes<lanes, Real>([](Real x) { return round_to(Format::bf16, x); }, n, term);
  }
};

}  // namespace

extern constexpr KernelEntry bf16_reduce = fault<TwoPass, Bf16Reduce>(
    "ln-bf16-reduce", "sums over the row are made in bf16", "sglang#27540", "fused", "narrow sums", "statistics");

}  // namespace attest::kernels::layer_norm::faults
