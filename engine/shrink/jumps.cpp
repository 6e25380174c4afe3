#include <algorithm>
#include <initializer_list>

#include "engine/shrink/candidates.hpp"

namespace attest::engine {
namespace {

// First index of a window of `size` out of `extent` that ends at `at` where it can.
Index window_start(Index at, Index size, Index extent) { return std::clamp<Index>(at - size + 1, 0, extent - size); }

using Tensors = std::initializer_list<Edit::Tensor>;
using enum Edit::Tensor;
constexpr Tensors all_tensors{q, k, v, bias, keep, kv_lengths}, of_queries{q, bias, keep}, of_keys{k, v},
    masks{bias, keep};

// Moves an origin by what is cut off the front of an axis, and edits with their elements.
void cut_front(Problem& p, Index& origin, Index by, Tensors tensors, std::size_t axis) {
  if (by == 0) return;
  origin += by;
  std::erase_if(p.edits, [&](Edit& edit) {
    if (std::ranges::find(tensors, edit.tensor) == tensors.end()) return false;
    edit.index[axis] -= by;
    return edit.index[axis] < 0;
  });
}

// Keeps `count` of the samples, up to and including sample `at`.
void cut_batch(Problem& p, Index count, Index at) {
  count = std::min(count, p.b);
  cut_front(p, p.b0, window_start(at, count, p.b), all_tensors, 0);
  p.b = count;
}

// Keeps `groups` key/value heads with `members` query heads each, up to and including query head `at`.
void cut_heads(Problem& p, Index groups, Index members, Index at) {
  if (p.hq < 1) return;
  const Index group = p.group();
  groups = std::min(groups, p.hkv);
  members = std::min(members, group);
  const Index first_kv = window_start(at / group, groups, p.hkv);
  cut_front(p, p.hkv0, first_kv, of_keys, 1);
  // Members are cut from every group alike; only the first group's keep their coordinates when groups stay several.
  const Index first_member = groups == 1 ? window_start(at % group, members, group) : 0;
  cut_front(p, p.hq0, first_kv * group + first_member, of_queries, 1);
  p.hkv = groups;
  p.hq = groups * members;
}

void cut_rows(Problem& p, Index count, Index at) {
  count = std::min(count, p.lq);
  cut_front(p, p.lq0, window_start(at, count, p.lq), of_queries, 2);
  p.lq = count;
}

void cut_columns(Problem& p, Index count, Index at) {
  count = std::min(count, p.dv);
  cut_front(p, p.dv0, window_start(at, count, p.dv), {v}, 3);
  p.dv = count;
}

const Dimension& dimension_named(std::string_view name) {
  return *std::ranges::find(dimensions(), name, &Dimension::name);
}

}  // namespace

Problem narrowed(Problem p, const Dimension& dimension, Index n, const Witness& witness) {
  if (dimension.name == "b")
    cut_batch(p, n, witness[0]);
  else if (dimension.name == "hkv")
    cut_heads(p, n, p.group(), witness[1]);
  else if (dimension.name == "group")
    cut_heads(p, p.hkv, n, witness[1]);
  else if (dimension.name == "lq")
    cut_rows(p, n, witness[2]);
  else if (dimension.name == "dv")
    cut_columns(p, n, witness[3]);
  else
    dimension.set(p, n);
  return p;
}

Problem last_keys(Problem p, Index n) {
  const Index by = p.lk - std::min(n, p.lk);
  Index same = p.lk0;
  cut_front(p, same, by, of_keys, 2);
  cut_front(p, p.lk0, by, masks, 3);
  p.lk -= by;
  return p;
}

Problem last_coordinates(Problem p, Index n) {
  const Index by = p.d - std::min(n, p.d);
  cut_front(p, p.d0, by, {q, k}, 3);
  p.d -= by;
  return p;
}

Problem capped(Problem p, Index most, const std::optional<Witness>& witness, const Supports& supports) {
  const Witness at = witness.value_or(Witness{});
  const Index group = p.hq > 0 ? p.group() : 1;
  const auto most_of = [&](std::string_view name) { return rungs(dimension_named(name), p, supports).up(most); };
  cut_batch(p, most_of("b"), at[0]);
  // The cap is on query heads: a group first, since sharing a head is the harder case.
  const Index members = std::min(group, most_of("group"));
  cut_heads(p, rungs(dimension_named("hkv"), p, supports).up(std::max<Index>(most / members, 1)), members, at[1]);
  cut_rows(p, most_of("lq"), at[2]);
  p.lk = std::min(p.lk, most_of("lk"));
  p.d = std::min(p.d, most_of("d"));
  cut_columns(p, most_of("dv"), at[3]);
  return p;
}

Problem sliced(Problem p, Index samples, const Witness& witness, const Supports& supports) {
  const auto up = [&](std::string_view name, Index n) { return rungs(dimension_named(name), p, supports).up(n); };
  cut_batch(p, up("b", samples), witness[0]);
  const Index members = up("group", 1);
  cut_heads(p, up("hkv", 1), members, witness[1]);
  cut_rows(p, up("lq", 1), witness[2]);
  cut_columns(p, up("dv", 1), witness[3]);
  return p;
}

std::string_view name(Group group) noexcept {
  constexpr std::array<std::string_view, all_groups.size()> names{"masks",   "layouts", "outputs",
                                                                  "scaling", "forms",   "values"};
  return names[static_cast<std::size_t>(group)];
}

Problem reset(Problem p, Group group) {
  const Problem simple;
  switch (group) {
    case Group::masks:
      p.causal = simple.causal;
      p.align = simple.align;
      p.window_left = simple.window_left;
      p.window_right = simple.window_right;
      p.keep = simple.keep;
      p.keep_axes = simple.keep_axes;
      p.bias = simple.bias;
      p.bias_axes = simple.bias_axes;
      p.bias_type = simple.bias_type;
      p.lengths = simple.lengths;
      break;
    case Group::layouts:
      p.q_layout = p.k_layout = p.v_layout = p.out_layout = p.mask_layout = Layout::bhsd;
      break;
    case Group::outputs:
      p.lse = simple.lse;
      p.threads = simple.threads;
      p.rows = simple.rows;
      break;
    case Group::scaling:
      p.scale = simple.scale;
      p.softcap = simple.softcap;
      break;
    case Group::forms:
      p.forms.clear();
      break;
    case Group::values:
      p.values = Values::integers;  // the plainest under which rows still differ
      p.amplitude = simple.amplitude;
      p.q_form = p.k_form = p.v_form = Form::drawn;
      p.edits.clear();
      p.seed = 0;
      p.b0 = p.hq0 = p.hkv0 = p.lq0 = p.lk0 = p.d0 = p.dv0 = 0;
      break;
  }
  return p;
}

}  // namespace attest::engine
