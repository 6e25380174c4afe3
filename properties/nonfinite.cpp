#include "properties/nonfinite.hpp"

#include <algorithm>
#include <cstdint>

namespace attest::properties {
namespace {

using Visit = std::function<bool(std::array<Index, 4>)>;

// An element is not finite if all the bits of its exponent are set.
template <class Bits>
void scan(const Tensor& tensor, Bits exponent, const Visit& visit) {
  std::array<Index, 4> n{1, 1, 1, 1}, stride{};
  std::copy(tensor.shape().begin(), tensor.shape().end(), n.begin());
  std::copy(tensor.strides().begin(), tensor.strides().end(), stride.begin());
  const attest_tensor view = tensor.view();
  // Rows run along the last axis that the tensor has.
  const std::size_t along = tensor.shape().size() - 1;
  const Index length = n[along], step = stride[along];
  n[along] = 1;
  for (Index i0 = 0; i0 < n[0]; ++i0)
    for (Index i1 = 0; i1 < n[1]; ++i1)
      for (Index i2 = 0; i2 < n[2]; ++i2) {
        const auto* row = static_cast<const Bits*>(attest_at(&view, i0, i1, i2, 0));
        bool any = false;
        for (Index c = 0; c < length; ++c) any |= (row[c * step] & exponent) == exponent;
        for (Index c = 0; any && c < length; ++c) {
          if ((row[c * step] & exponent) != exponent) continue;
          std::array<Index, 4> index{i0, i1, i2, 0};
          index[along] = c;
          if (!visit(index)) return;
        }
      }
}

}  // namespace

void for_each_nonfinite(const Tensor& tensor, const Visit& visit) {
  if (!tensor.present() || tensor.size() == 0) return;
  switch (tensor.dtype()) {
    case DType::f16:
      return scan<std::uint16_t>(tensor, 0x7C00, visit);
    case DType::bf16:
      return scan<std::uint16_t>(tensor, 0x7F80, visit);
    case DType::f32:
      return scan<std::uint32_t>(tensor, 0x7F800000, visit);
    case DType::f64:
      return scan<std::uint64_t>(tensor, 0x7FF0000000000000, visit);
    default:
      return;
  }
}

}  // namespace attest::properties
