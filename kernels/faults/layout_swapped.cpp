#include "kernels/faults/fault.hpp"

namespace attest::kernels::faults {
namespace {

struct LayoutSwapped : CleanSteps {
  static View view(const attest_tensor& tensor) {
    View view = strided(tensor);
    const Index heads = tensor.shape[1], rows = tensor.shape[2], columns = tensor.shape[3];
    const bool bshd = view.strides[3] == 1 && view.strides[2] == heads * columns && view.strides[1] == columns;
    if (bshd) view.strides[1] = rows * columns, view.strides[2] = columns;
    return view;
  }
};

}  // namespace

extern constexpr KernelEntry layout_swapped =
    fault<CleanSteps, LayoutSwapped>("layout-swapped", "q, k and v that lie as [B,S,H,D] are read as [B,H,S,D]",
                                     "common slip", "fused", "layout", "reading");

}  // namespace attest::kernels::faults
