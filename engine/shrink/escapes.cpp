#include <algorithm>
#include <utility>

#include "engine/shrink/candidates.hpp"

namespace attest::engine {
namespace {

constexpr Index most_samples = 64, most_columns = 31;  // no multiple of a register
constexpr Index most_sampled_work = Index{1} << 20;
// Two significant bits: a product with it is rounded, and it is neither a default nor missed where it is squared.
constexpr double given_scale = 0.75;

// Nothing but numbers: no mask, no option, one head of one sample in a plain layout.
bool bare(const Problem& p) {
  Problem plain = p;
  for (const FieldGroup group : {FieldGroup::masks, FieldGroup::layouts}) plain = reset(std::move(plain), group);
  return plain == p && p.softcap == 0 && p.b == 1 && p.hq == 1;
}

// Numbers of full significands, and a scale if the original was given one. What has other conditions of its own keeps its
// scale: a wrong one would be another failure.
Problem with_full_significands(const Problem& original, Problem p) {
  p = reset(std::move(p), FieldGroup::values);
  p.values = Values::normal;
  if (!p.scale && original.scale && bare(p)) p.scale = *original.scale < 0 ? -given_scale : given_scale;
  return p;
}

Problem with_values_of(const Problem& original, Problem p) {
  for (const Field& field : fields())
    if (field.group == FieldGroup::values || field.group == FieldGroup::scaling) copy_field(field, original, p);
  p.values_file = original.values_file;
  p.edits = original.edits;
  return p;
}

// Masks of the same kinds that close whole rows.
Problem with_closed_rows(Problem p) {
  if (p.keep != Keep::none) p.keep = Keep::closed;
  if (closes_keys(p.bias)) p.bias = Bias::minus_inf;
  if (p.lengths != Lengths::none) p.lengths = Lengths::some_zero;
  return p;
}

// What gaps between rows do from the second row on, a base off its boundary does from the first.
Problem with_odd_bases(Problem p) {
  for (Layout Problem::*layout : {&Problem::q_layout, &Problem::k_layout, &Problem::v_layout, &Problem::out_layout})
    if (off_boundary(p.*layout)) p.*layout = Layout::odd_base;
  return p;
}

}  // namespace

Problem sampled(Problem p) {
  if (p.values == Values::file) return p;
  const auto room = [&] { return std::max<Index>(most_sampled_work / std::max<Index>(p.multiply_adds(), 1), 1); };
  p.b *= std::min(room(), most_samples);
  p.dv *= std::min(room(), most_columns);
  return p;
}

std::vector<Escape> escapes(const Problem& shape, const Problem& original) {
  std::vector<Escape> found;
  const auto add = [&](Problem p, const char* change, bool drawn, bool likely = false) {
    p.lse = original.lse;
    found.push_back({{std::move(p), change}, drawn, likely});
  };
  add(shape, "as it is", false, true);
  const Problem open = reset(shape, FieldGroup::masks);
  if (with_closed_rows(shape) != shape) add(with_closed_rows(shape), "closed rows", true);
  if (shape.window_left >= 0) {
    Problem narrow = shape;
    narrow.window_left = 0;
    add(std::move(narrow), "the narrowest window", false);
  }
  if (shape.keep != Keep::none) {
    Problem closed = open;
    closed.keep = Keep::closed;
    add(std::move(closed), "a closed mask alone", false);
  }
  add(with_full_significands(original, shape), "normal values", true, true);
  if (open != shape) add(with_full_significands(original, open), "normal values without masks", true);
  add(with_values_of(original, shape), "the values it began with", true);
  Problem reseeded = shape;
  ++reseeded.seed;
  add(std::move(reseeded), "another seed", true);
  if (Problem odd = with_odd_bases(shape); odd != shape) add(std::move(odd), "odd bases", false);
  return found;
}

std::vector<Problem> smaller_shapes(const Problem& p, const Supports& supports) {
  std::vector<Problem> to_simplest, halved, by_one, shapes;
  Problem least = p;
  for (const Dimension& dimension : dimensions()) {
    const Rungs by = rungs(dimension, p, supports);
    Problem shape = p;
    dimension.set(shape, by.least);
    if (dimension.other_way || shape.multiply_adds() >= p.multiply_adds()) continue;
    to_simplest.push_back(std::move(shape));
    dimension.set(least, by.least);
    if (const Index steps = (dimension.get(p) - by.least) / by.unit; steps > 3)
      dimension.set(halved.emplace_back(p), by.least + steps / 2 * by.unit);
    dimension.set(by_one.emplace_back(p), dimension.get(p) - by.unit);
  }
  const auto add = [&](const Problem& shape) {
    if (shape.multiply_adds() < p.multiply_adds() && std::ranges::find(shapes, shape) == shapes.end())
      shapes.push_back(shape);
  };
  add(least);
  std::ranges::for_each(to_simplest, add);
  least.lk = 2;  // the fewest keys that weights differ between
  add(least);
  std::ranges::for_each(halved, add);
  std::ranges::for_each(by_one, add);
  return shapes;
}

}  // namespace attest::engine
