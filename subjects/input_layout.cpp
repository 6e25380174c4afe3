#include "subjects/input_layout.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace attest {
namespace {

constexpr std::string_view names[] = {"packed", "odd_base", "padded_rows", "every_other", "column_major"};
constexpr Index row_gap = 3, element_stride = 2;  // elements

std::vector<Index> strides_of(const std::vector<Index>& shape, InputLayout layout) {
  std::vector<Index> strides(shape.size());
  Index next = layout == InputLayout::every_other ? element_stride : 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t axis = layout == InputLayout::column_major ? i : shape.size() - 1 - i;
    strides[axis] = next;
    next *= std::max<Index>(shape[axis], 1);
    if (layout == InputLayout::padded_rows && i == 0) next += row_gap;
  }
  return strides;
}

}  // namespace

std::string_view name(InputLayout layout) noexcept { return names[static_cast<std::size_t>(layout)]; }

std::optional<InputLayout> other_layout_named(std::string_view name) noexcept {
  const auto* const found = std::find(std::begin(names) + 1, std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<InputLayout>(found - std::begin(names));
}

LaidOut laid_out(const NamedArray& array, InputLayout layout, std::byte gap) {
  const std::size_t size = bytes_of(array.type), count = size > 0 ? array.bytes.size() / size : 0;
  LaidOut made;
  made.strides = strides_of(array.shape, layout);
  if (layout == InputLayout::packed) {
    made.bytes.assign(array.bytes.begin(), array.bytes.end());
    return made;
  }
  made.offset = layout == InputLayout::odd_base ? size : 0;
  std::size_t last = 0;
  for (std::size_t axis = 0; axis < array.shape.size(); ++axis)
    last += static_cast<std::size_t>(std::max<Index>(array.shape[axis] - 1, 0) * made.strides[axis]);
  made.bytes.assign(made.offset + (count > 0 ? (last + 1) * size : 0), gap);
  made.element.assign(made.bytes.size(), false);
  std::vector<Index> index(array.shape.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t at = made.offset;
    for (std::size_t axis = 0; axis < index.size(); ++axis)
      at += static_cast<std::size_t>(index[axis] * made.strides[axis]) * size;
    std::memcpy(made.bytes.data() + at, array.bytes.data() + i * size, size);
    std::fill_n(made.element.begin() + static_cast<std::ptrdiff_t>(at), size, true);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < array.shape[axis]) break;
      index[axis] = 0;
    }
  }
  return made;
}

}  // namespace attest
