#include "generators/layout.hpp"

#include <array>

#include "generators/weighted.hpp"

namespace attest {
namespace {

// bhsd bshd padded_rows odd_base spaced transposed slice broadcast_batch broadcast_heads broadcast_rows.
constexpr std::array<std::uint16_t, layout_count> mixed{24, 16, 10, 10, 8, 10, 10, 6, 6, 6};
constexpr std::array<std::uint16_t, layout_count> contiguous{1, 0, 0, 0, 0, 0, 0, 0, 0, 0};

}  // namespace

void draw_layouts(Problem& problem, const Domain& domain, Source& source) {
  const Domain::Fields& fields = domain.fields();
  const auto draw = [&](const std::array<std::uint16_t, layout_count>& weights, Range allowed) {
    return static_cast<Layout>(weighted(source, weights, allowed, [&](Index layout) {
      return domain.allows(static_cast<Layout>(layout), problem.dtype);
    }));
  };
  const Index kind = source.below(8);
  const auto& weights = kind < 4 ? contiguous : mixed;
  problem.out_layout = draw(weights, fields.out_layout);
  const Layout out = problem.out_layout;
  const bool shared = kind == 4;  // as when they are views of one packed tensor
  const auto input = [&](Range allowed) {
    return shared && allowed.contains(static_cast<Index>(out)) ? out : draw(weights, allowed);
  };
  problem.q_layout = input(fields.q_layout);
  problem.k_layout = input(fields.k_layout);
  problem.v_layout = input(fields.v_layout);
  const bool masked = problem.keep != Keep::none || problem.bias != Bias::none;
  problem.mask_layout = draw(masked && kind >= 4 ? mixed : contiguous, fields.mask_layout);
}

}  // namespace attest
