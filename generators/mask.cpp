#include "generators/mask.hpp"

#include <algorithm>
#include <array>

#include "generators/weighted.hpp"

namespace attest {
namespace {

// In the order of the labels: none open half sparse dense prefix suffix blocks one counted some_empty closed.
constexpr std::array<std::uint16_t, keep_count> keep_weights{66, 2, 5, 3, 4, 5, 4, 3, 2, 3, 2, 1};
// none zero normal alibi minus_inf lowest minus_1e4 padding empty_inf empty_lowest large.
constexpr std::array<std::uint16_t, bias_count> bias_weights{68, 2, 8, 4, 4, 2, 3, 3, 2, 2, 2};
// none full ragged some_zero one.
constexpr std::array<std::uint16_t, lengths_count> length_weights{76, 4, 11, 6, 3};
constexpr std::array<std::uint16_t, 2> causal_weights{65, 35}, align_weights{1, 1};
// same f32 f16 bf16 f64.
constexpr std::array<std::uint16_t, bias_type_count> bias_type_weights{4, 4, 1, 1, 1};

// What masks in the field vary along: everything; batch and key (padding); query and key; batch, query and key; head,
// query and key. Any other set of axes in a third of the problems.
constexpr auto usual_axes = std::to_array<Index>({15, 9, 12, 13, 14});

Index draw_axes(Source& source, Range allowed) {
  if (allowed.lo == allowed.hi) return allowed.lo;
  const Index usual = source.pick(usual_axes);
  if (allowed.contains(usual) && source.chance(2, 3)) return usual;
  return source.between(allowed.lo, allowed.hi);
}

// Where numbers of 32 and 64 bits end.
constexpr auto type_ends = std::to_array<Index>(
    {0x7fff'fffe, 0x7fff'ffff, 0x8000'0000, 0xffff'ffff, 0x1'0000'0000, 0x7fff'ffff'ffff'fffe, 0x7fff'ffff'ffff'ffff});

// Keys on one side of the diagonal: none, few, about all, more than there are, as many as a type can hold.
Index draw_window(const Problem& problem, Source& source, Range allowed) {
  const Index longest = std::max({problem.lq, problem.lk, Index{1}});
  const Index width = [&] {
    const Index kind = source.below(32);
    if (kind == 31) return source.pick(type_ends);
    switch (kind % 4) {
      case 0:
        return source.below(3);
      case 1:
        return longest + source.between(-1, 1);
      case 2:
        return 2 * longest + source.below(longest);
      default:
        return source.log_uniform(longest);
    }
  }();
  return allowed.floor(width);
}

Index simplest(Range allowed, Index value) { return allowed.contains(value) ? value : allowed.lo; }

void draw_windows(Problem& problem, const Domain::Fields& fields, Source& source) {
  const bool some = source.chance(1, 5);
  const Index sides = source.between(1, 3);
  const auto draw = [&](Range allowed, bool wanted) {
    const bool bounded = some && wanted && allowed.hi >= 0;
    return bounded ? draw_window(problem, source, {std::max<Index>(allowed.lo, 0), allowed.hi}) : simplest(allowed, -1);
  };
  problem.window_left = draw(fields.window_left, sides & 1);
  problem.window_right = draw(fields.window_right, sides & 2);
}

}  // namespace

void draw_masks(Problem& problem, const Domain& domain, Source& source) {
  const Domain::Fields& fields = domain.fields();
  problem.causal = weighted(source, causal_weights, fields.causal) != 0;
  draw_windows(problem, fields, source);
  problem.align = static_cast<Align>(has_diagonal(problem) ? weighted(source, align_weights, fields.align)
                                                           : simplest(fields.align, 0));

  problem.keep = static_cast<Keep>(weighted(source, keep_weights, fields.keep));
  problem.keep_axes = problem.keep == Keep::none ? simplest(fields.keep_axes, 15) : draw_axes(source, fields.keep_axes);
  problem.bias = static_cast<Bias>(weighted(source, bias_weights, fields.bias));
  const bool biased = problem.bias != Bias::none;
  problem.bias_axes = biased ? draw_axes(source, fields.bias_axes) : simplest(fields.bias_axes, 15);
  const auto offered = [&](Index type) { return domain.offers(static_cast<BiasType>(type), problem.dtype); };
  problem.bias_type = static_cast<BiasType>(biased ? weighted(source, bias_type_weights, fields.bias_type, offered)
                                                   : simplest(fields.bias_type, 0));
  problem.lengths = static_cast<Lengths>(weighted(source, length_weights, fields.lengths));
}

void redraw_masks(Problem& problem, const Domain& domain, Source& source) {
  const Domain::Fields& fields = domain.fields();
  const auto some = [](Range range) { return Range{std::max<Index>(range.lo, 1), range.hi}; };
  if (problem.keep != Keep::none) problem.keep = static_cast<Keep>(weighted(source, keep_weights, some(fields.keep)));
  if (problem.bias != Bias::none) problem.bias = static_cast<Bias>(weighted(source, bias_weights, some(fields.bias)));
  if (problem.lengths != Lengths::none)
    problem.lengths = static_cast<Lengths>(weighted(source, length_weights, some(fields.lengths)));
}

}  // namespace attest
