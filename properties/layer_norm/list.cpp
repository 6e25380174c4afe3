#include <algorithm>
#include <array>

#include "properties/layer_norm/laws.hpp"

namespace attest::properties::layer_norm {

std::span<const Law> laws() noexcept {
  static const std::array all{
      repeated(),     other_rows(),        row_alone(),      residual_swapped(), gamma_zero(),
      constant_row(), negated(),           negated_gamma(),  scaled(),           params_scaled(),
      shifted(),      channels_permuted(), residual_zero(),  shifted_bound(),    channels_permuted_bound(),
      shared_mean(),  other_x(),           other_residual(), other_gamma(),      other_beta()};
  return all;
}

const Law* find_law(std::string_view name) noexcept {
  const auto found = std::ranges::find(laws(), name, &Law::name);
  return found == laws().end() ? nullptr : &*found;
}

}  // namespace attest::properties::layer_norm
