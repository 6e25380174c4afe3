#include "properties/transform.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

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
  for_each_stored(gathered, [&](Index b, Index h, Index i, Index c) {
    copy_element(from, {samples[static_cast<std::size_t>(b)], h, i, c}, to, {b, h, i, c});
  });
  return gathered;
}

}  // namespace

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
  for_each_stored(copy, [&](Index b, Index h, Index i, Index c) {
    copy_element(from, {b, h, i, c}, to, {b, h, i, c});
  });
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
