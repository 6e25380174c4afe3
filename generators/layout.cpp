#include "generators/layout.hpp"

#include <array>

#include "generators/weighted.hpp"

namespace attest {
namespace {

using Weights = std::array<std::uint16_t, layout_count>;

// bhsd bshd padded_rows odd_base spaced transposed slice far broadcast_batch broadcast_heads broadcast_rows.
constexpr Weights mixed{24, 16, 10, 10, 8, 10, 10, 3, 6, 6, 6};
constexpr Weights strided{0, 30, 12, 10, 8, 10, 18, 4, 4, 4, 4};
constexpr Weights contiguous{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

}  // namespace

void draw_layouts(Problem& problem, const Domain& domain, Source& source) {
  const Domain::Fields& fields = domain.fields();
  const auto allowed = [&](Index layout) { return domain.allows(static_cast<Layout>(layout), problem.dtype); };
  const auto draw = [&](const Weights& weights, Range range) {
    return static_cast<Layout>(weighted(source, weights, range, allowed));
  };
  const Range common = intersect(intersect(fields.q_layout, fields.k_layout), fields.v_layout);
  bool may_agree = false;
  for (Index layout = common.lo; layout <= common.hi; ++layout) may_agree = may_agree || allowed(layout);

  const Index kind = source.below(8);
  const Weights& weights = kind < 4 ? contiguous : mixed;
  problem.out_layout = draw(weights, fields.out_layout);
  if (may_agree && (kind == 4 || kind == 5)) {  // as views of one packed tensor do, and out mostly with them
    const Layout layout = draw(strided, common);
    problem.q_layout = problem.k_layout = problem.v_layout = layout;
    if (fields.out_layout.contains(static_cast<Index>(layout)) && source.chance(2, 3)) problem.out_layout = layout;
  } else {
    problem.q_layout = draw(weights, fields.q_layout);
    problem.k_layout = draw(weights, fields.k_layout);
    problem.v_layout = draw(weights, fields.v_layout);
  }
  const bool masked = problem.keep != Keep::none || problem.bias != Bias::none;
  problem.mask_layout = draw(masked ? weights : contiguous, fields.mask_layout);
}

}  // namespace attest
