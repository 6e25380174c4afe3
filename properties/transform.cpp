#include "properties/transform.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace attest::properties {
namespace {

// Elements by which the first one lies off a 64-byte boundary.
Index base_offset(const Tensor& tensor) noexcept {
  const attest_tensor view = tensor.view();
  const auto address = reinterpret_cast<std::uintptr_t>(attest_at(&view, 0, 0, 0, 0));
  return static_cast<Index>(address % 64 / size_of(tensor.dtype()));
}

Tensor gather(const Tensor& tensor, std::span<const Index> samples) {
  if (!tensor.present()) return {};
  std::array<Index, 4> shape = extents(tensor);
  shape[0] = static_cast<Index>(samples.size());
  Tensor gathered(tensor.dtype(), std::span<const Index>(shape).first(tensor.shape().size()), tensor.strides(),
                  base_offset(tensor));
  const attest_tensor from = tensor.view(), to = gathered.view();
  const Index count = stored_extents(gathered)[3];
  for_each_row(gathered, [&](Index b, Index h, Index i) {
    copy_row(from, {samples[static_cast<std::size_t>(b)], h, i, 0}, to, {b, h, i, 0}, count);
  });
  return gathered;
}

template <class Bits>
void copy_elements(const std::byte* from, Index from_step, std::byte* to, Index to_step, Index count) noexcept {
  for (Index n = 0; n < count; ++n)
    std::memcpy(to + n * to_step * Index{sizeof(Bits)}, from + n * from_step * Index{sizeof(Bits)}, sizeof(Bits));
}

}  // namespace

void copy_row(const attest_tensor& from, const std::array<Index, 4>& i, const attest_tensor& to,
              const std::array<Index, 4>& j, Index count) noexcept {
  const std::byte* const source = address_of(from, i);
  std::byte* const target = address_of(to, j);
  const auto step_of = [](const attest_tensor& t) { return t.ndim == 4 ? t.strides[3] : 0; };
  const Index from_step = step_of(from), to_step = step_of(to);
  if (from_step == 1 && to_step == 1) {
    std::memcpy(target, source, static_cast<std::size_t>(count) * (from.dtype.bits / 8));
    return;
  }
  switch (from.dtype.bits) {
    case 8:
      return copy_elements<std::uint8_t>(source, from_step, target, to_step, count);
    case 16:
      return copy_elements<std::uint16_t>(source, from_step, target, to_step, count);
    case 32:
      return copy_elements<std::uint32_t>(source, from_step, target, to_step, count);
    default:
      return copy_elements<std::uint64_t>(source, from_step, target, to_step, count);
  }
}

std::array<Index, 4> extents(const Tensor& tensor) noexcept {
  std::array<Index, 4> n{1, 1, 1, 1};
  std::copy(tensor.shape().begin(), tensor.shape().end(), n.begin());
  return n;
}

std::array<Index, 4> stored_extents(const Tensor& tensor) noexcept {
  std::array<Index, 4> n = extents(tensor);
  for (std::size_t axis = 0; axis < tensor.strides().size(); ++axis)
    if (tensor.strides()[axis] == 0) n[axis] = std::min<Index>(n[axis], 1);
  return n;
}

Inputs gather_samples(const Inputs& inputs, std::span<const Index> samples) {
  Inputs gathered;
  for (const auto member : Inputs::members) gathered.*member = gather(inputs.*member, samples);
  gathered.set_options(inputs);
  return gathered;
}

Tensor relaid(const Tensor& tensor, Layout layout) {
  if (!tensor.present()) return {};
  const std::array<Index, 4> shape = extents(tensor);
  const Placement placement = place(layout, shape);
  Tensor copy(tensor.dtype(), shape, placement.strides, placement.base_offset);
  const attest_tensor from = tensor.view(), to = copy.view();
  for_each_row(copy, [&](Index b, Index h, Index i) { copy_row(from, {b, h, i, 0}, to, {b, h, i, 0}, shape[3]); });
  return copy;
}

double changed(double x, double other) noexcept {
  if (std::isfinite(other) && other != x) return other;
  return std::isfinite(x) && x != 0 ? -x : 1;
}

Problem reseeded(const Problem& problem, std::uint64_t salt) {
  Problem other = problem;
  other.seed = draw(problem, salt);
  other.edits.clear();
  if (other.values == Values::file) {  // captured values have no seed
    other.values = Values::normal;
    other.values_file.clear();
  }
  return other;
}

}  // namespace attest::properties
