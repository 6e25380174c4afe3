#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct StridesIgnored : CleanSteps {
  static View view(const attest_tensor& tensor) {
    View view = strided(tensor);
    std::array<Index, 4> contiguous{};
    Index elements = 1, span = 1;
    for (std::size_t axis = 4; axis-- > 0;) {
      contiguous[axis] = elements;
      elements *= tensor.shape[axis];
      span += (tensor.shape[axis] - 1) * view.strides[axis];
    }
    // A broadcast tensor has less memory than that: it is read as it is.
    if (elements <= span) view.strides = contiguous;
    return view;
  }
};

}  // namespace

extern constexpr KernelEntry strides_ignored =
    fault<CleanSteps, StridesIgnored>("strides-ignored", "q, k and v are read as if they were contiguous",
                                      "PT#112577, #181133, #163597, #187504, #195320", "fused", "layout", "reading");

}  // namespace attest::kernels::faults
