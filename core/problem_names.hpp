#pragma once
#include <array>
#include <string_view>

#include "core/problem.hpp"

namespace attest {

// Names of Edit::Tensor, in its order.
inline constexpr auto edit_tensor_names =
    std::to_array<std::string_view>({"q", "k", "v", "bias", "keep", "kv_lengths"});

}  // namespace attest
