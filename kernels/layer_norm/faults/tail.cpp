#include "kernels/layer_norm/fused.hpp"

namespace attest::kernels::layer_norm::faults {
namespace {

struct Tail : TwoPass {
  static Index seen(Index n) { return n > 1 ? n - n % 2 : n; }
};

}  // namespace

extern constexpr KernelEntry tail = fault<TwoPass, Tail>(
    "ln-tail", "the statistics miss the last element of an odd row", "aiter#5044", "fused", "tail", "statistics");

}  // namespace attest::kernels::layer_norm::faults
