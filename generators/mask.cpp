#include "generators/mask.hpp"

#include <algorithm>
#include <array>

#include "generators/weighted.hpp"

namespace attest {
namespace {

// The axes along which masks in the field vary: everything; batch and key (padding); query and key; batch, query and
// key; head, query and key. Any other set of axes is drawn in a third of the problems.
constexpr auto usual_axes = std::to_array<Index>({15, 9, 12, 13, 14});

Index draw_axes(Source& source, Range allowed) {
  if (allowed.lo == allowed.hi) return allowed.lo;
  const Index usual = source.pick(usual_axes);
  if (allowed.contains(usual) && source.chance(2, 3)) return usual;
  return source.between(allowed.lo, allowed.hi);
}

// The largest numbers of 32 and 64 bits.
constexpr auto type_ends = std::to_array<Index>({0x7fff'ffff, 0xffff'ffff, 0x7fff'ffff'ffff'ffff});

// About as many as a type can hold: a little more is few again to what keeps that type's bits alone.
Index draw_type_end(Source& source, Index longest) {
  const Index end = source.pick(std::span<const Index>(type_ends));
  if (end == type_ends.back()) return end - source.below(2);
  return end + source.between(-1, source.chance(1, 2) ? 1 : longest + 1);
}

// Keys on one side of the diagonal: none, few, about all, more than there are, as many as a type can hold.
Index draw_window(const Problem& problem, Source& source, Range allowed) {
  const Index longest = std::max({problem.lq, problem.lk, Index{1}});
  const Index width = [&] {
    const Index kind = source.below(32);
    if (kind >= 24) return draw_type_end(source, longest);
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

void draw_windows(Problem& problem, const Domain& domain, Source& source) {
  const bool some = source.chance(1, 5);
  const Index sides = source.between(1, 3);
  const auto draw = [&](Range allowed, bool wanted) {
    const bool bounded = some && wanted && allowed.hi >= 0;
    return bounded ? draw_window(problem, source, {std::max<Index>(allowed.lo, 0), allowed.hi}) : simplest(allowed, -1);
  };
  problem.window_left = draw(domain.range<&Problem::window_left>(), sides & 1);
  problem.window_right = draw(domain.range<&Problem::window_right>(), sides & 2);
}

// Leaves a field that has no meaning in this problem at its simplest value.
template <auto Member>
void leave_simplest(Problem& problem, const Domain& domain) {
  const Field& field = field_of<Member>();
  field.set(problem, simplest(domain.range(field), field.simplest));
}

// Another label than the first, which says that nothing is there.
template <auto Member>
void redraw(Problem& problem, const Domain& domain, Source& source) {
  const Field& field = field_of<Member>();
  if (field.get(problem) == 0) return;
  const Range range = domain.range(field);
  field.set(problem, weighted(source, field.weights, {std::max<Index>(range.lo, 1), range.hi}));
}

}  // namespace

void draw_masks(Problem& problem, const Domain& domain, Source& source) {
  draw_field<&Problem::causal>(problem, domain, source);
  draw_windows(problem, domain, source);
  if (has_diagonal(problem))
    draw_field<&Problem::align>(problem, domain, source);
  else
    leave_simplest<&Problem::align>(problem, domain);

  draw_field<&Problem::keep>(problem, domain, source);
  if (problem.keep == Keep::none)
    leave_simplest<&Problem::keep_axes>(problem, domain);
  else
    problem.keep_axes = draw_axes(source, domain.range<&Problem::keep_axes>());
  draw_field<&Problem::bias>(problem, domain, source);
  if (problem.bias == Bias::none) {
    leave_simplest<&Problem::bias_axes>(problem, domain);
    leave_simplest<&Problem::bias_type>(problem, domain);
  } else {
    const auto offered = [&](Index type) { return domain.offers(static_cast<BiasType>(type), problem.dtype); };
    problem.bias_axes = draw_axes(source, domain.range<&Problem::bias_axes>());
    draw_field<&Problem::bias_type>(problem, domain, source, offered);
  }
  draw_field<&Problem::lengths>(problem, domain, source);
}

void redraw_masks(Problem& problem, const Domain& domain, Source& source) {
  redraw<&Problem::keep>(problem, domain, source);
  redraw<&Problem::bias>(problem, domain, source);
  redraw<&Problem::lengths>(problem, domain, source);
}

}  // namespace attest
