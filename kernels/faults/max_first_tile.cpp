#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct MaxFirstTile : CleanSteps {
  // The first tile exceeds -inf by this much, and no later tile exceeds the first.
  static double lag(const Policy&) { return std::numeric_limits<float>::max(); }
};

}  // namespace

extern constexpr KernelEntry max_first_tile =
    fault<CleanSteps, MaxFirstTile>("max-first-tile", "the maximum is that of the first tile with an open key",
                                    "HabanaAI/vllm-fork#275", "fused", "maximum", "softmax");

}  // namespace attest::kernels::faults
