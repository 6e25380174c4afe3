#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/npz.hpp"

// The layouts of a model's inputs in memory when a runtime is handed them.
namespace attest {

enum class InputLayout : std::uint8_t {
  packed,        // row-major, at a multiple of 64 bytes: every runtime takes it
  odd_base,      // row-major, one element off such a multiple
  padded_rows,   // a gap behind every row of the last axis
  every_other,   // a gap behind every element
  column_major,  // the first axis is the innermost one
};
inline constexpr std::array other_layouts{InputLayout::odd_base, InputLayout::padded_rows, InputLayout::every_other,
                                          InputLayout::column_major};
std::string_view name(InputLayout layout) noexcept;
// nullopt of none, and of `packed`.
std::optional<InputLayout> other_layout_named(std::string_view name) noexcept;

// A tensor as it lies: `bytes` begin at a multiple of 64, and hold `gap` wherever no element lies.
struct LaidOut {
  std::vector<std::byte> bytes;
  std::size_t offset = 0;      // place of the first element
  std::vector<Index> strides;  // in elements
  std::vector<bool> element;   // by byte: whether it belongs to an element; empty: all do
  [[nodiscard]] bool is_element(std::size_t byte) const { return element.empty() || element[byte]; }
};
LaidOut laid_out(const NamedArray& array, InputLayout layout, std::byte gap);

}  // namespace attest
