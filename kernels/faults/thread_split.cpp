#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct ThreadSplit : SplitSteps {
  static Index splits(const Call& call) {
    return call.threads == 0 ? splits_max : std::min<Index>(call.threads, splits_max);
  }
};

}  // namespace

extern constexpr KernelEntry thread_split = fault<SplitSteps, ThreadSplit>(
    "thread-split", "the keys are split into as many parts as there are threads, so that bits follow the threads",
    "LC#13438 family", "fused-split", "splits", "partial");

}  // namespace attest::kernels::faults
