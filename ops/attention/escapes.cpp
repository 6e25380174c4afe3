#include <algorithm>
#include <utility>

#include "ops/attention/parts.hpp"

namespace attest::ops::of_attention {
namespace {

Problem of_group_reset(Problem p, FieldGroup group) { return reset(ops::Problem(std::move(p)), group).as<Problem>(); }

constexpr Index most_samples = 64, most_columns = 31;  // no multiple of a register
constexpr Index most_sampled_work = Index{1} << 20;
// Two significant bits: a product with it is rounded, and it is neither a default nor missed where it is squared.
constexpr double given_scale = 0.75;

// Tells whether the problem has nothing but numbers: no mask, no option, one head of one sample in a plain layout.
bool bare(const Problem& p) {
  Problem plain = p;
  for (const FieldGroup group : {FieldGroup::masks, FieldGroup::layouts})
    plain = of_group_reset(std::move(plain), group);
  return plain == p && p.softcap == 0 && p.b == 1 && p.hq == 1;
}

// Sets values of full significands, and a scale if the original was given one. A problem with masks, options or several
// heads keeps its scale: a wrong one would be another failure.
Problem with_full_significands(const Problem& original, Problem p) {
  p = of_group_reset(std::move(p), FieldGroup::values);
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

// Moves bases off their boundary: this does from the first row on what gaps between rows do from the second.
Problem with_odd_bases(Problem p) {
  for (Layout Problem::*layout : {&Problem::q_layout, &Problem::k_layout, &Problem::v_layout, &Problem::out_layout})
    if (off_boundary(p.*layout)) p.*layout = Layout::odd_base;
  return p;
}

}  // namespace

Problem sampled(Problem p) {
  if (p.values == Values::file) return p;
  // No tensor of a problem is larger than its work, unless that is empty: no query of a million keys has none.
  const auto room = [&] {
    const Index largest = std::max({p.multiply_adds(), p.b * p.hq * p.lq * p.d, p.b * p.hkv * p.lk * (p.d + p.dv)});
    return std::max<Index>(most_sampled_work / std::max<Index>(largest, 1), 1);
  };
  p.b *= std::min(room(), most_samples);
  p.dv *= std::min(room(), most_columns);
  return p;
}

std::vector<Escape> escapes(const Problem& shape, const Problem& original) {
  std::vector<Escape> found;
  const auto add = [&](Problem p, const char* change, bool drawn, bool likely = false) {
    p.lse = original.lse;
    found.push_back({std::move(p), change, drawn, likely});
  };
  add(shape, "as it is", false, true);
  const Problem open = of_group_reset(shape, FieldGroup::masks);
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

}  // namespace attest::ops::of_attention
