#pragma once
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "core/problem.hpp"

namespace attest {

// Names of Edit::Tensor, in its order: the inputs of a call.
std::span<const std::string_view> edit_tensor_names();
std::string_view name(Edit::Tensor tensor);
// nullopt if there is none of that name.
std::optional<Edit::Tensor> edit_tensor_named(std::string_view name);

// The logical shape that an edit's index runs over; nullopt if the problem does not have the tensor.
std::optional<std::array<Index, 4>> edit_extent(const Problem& problem, Edit::Tensor tensor) noexcept;

}  // namespace attest
