#pragma once
#include <array>
#include <optional>
#include <string_view>

#include "core/problem.hpp"

namespace attest {

// Names of Edit::Tensor, in its order.
inline constexpr auto edit_tensor_names =
    std::to_array<std::string_view>({"q", "k", "v", "bias", "keep", "kv_lengths"});

// The logical shape that an edit's index runs over; nullopt if the problem does not have the tensor.
std::optional<std::array<Index, 4>> edit_extent(const Problem& problem, Edit::Tensor tensor) noexcept;

}  // namespace attest
