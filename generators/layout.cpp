#include "generators/layout.hpp"

#include <array>

#include "generators/weighted.hpp"

namespace attest {
namespace {

// The weights in place of those of the fields: bhsd bshd padded_rows odd_base spaced transposed slice far
// broadcast_batch broadcast_heads broadcast_rows.
constexpr std::array<std::uint16_t, layout_count> strided{0, 30, 12, 10, 8, 10, 18, 4, 4, 4, 4}, contiguous{1};

}  // namespace

void draw_layouts(Problem& problem, const Domain& domain, Source& source) {
  const auto allowed = [&](Index layout) { return domain.allows(static_cast<Layout>(layout), problem.dtype); };
  const auto draw = [&](Weights weights, Range range) {
    return static_cast<Layout>(weighted(source, weights, range, allowed));
  };
  const Range of_q = domain.range<&Problem::q_layout>(), of_k = domain.range<&Problem::k_layout>(),
              of_v = domain.range<&Problem::v_layout>(), of_out = domain.range<&Problem::out_layout>(),
              common = intersect(intersect(of_q, of_k), of_v);
  bool may_agree = false;
  for (Index layout = common.lo; layout <= common.hi; ++layout) may_agree = may_agree || allowed(layout);

  const Index kind = source.below(8);
  const Weights mixed = field_of<&Problem::q_layout>().weights, weights = kind < 4 ? Weights(contiguous) : mixed;
  problem.out_layout = draw(weights, of_out);
  if (may_agree && (kind == 4 || kind == 5)) {  // as views of one packed tensor do, and out mostly with them
    const Layout layout = draw(strided, common);
    problem.q_layout = problem.k_layout = problem.v_layout = layout;
    if (of_out.contains(static_cast<Index>(layout)) && source.chance(2, 3)) problem.out_layout = layout;
  } else {
    problem.q_layout = draw(weights, of_q);
    problem.k_layout = draw(weights, of_k);
    problem.v_layout = draw(weights, of_v);
  }
  const bool masked = problem.keep != Keep::none || problem.bias != Bias::none;
  problem.mask_layout = draw(masked ? weights : Weights(contiguous), domain.range<&Problem::mask_layout>());
}

}  // namespace attest
