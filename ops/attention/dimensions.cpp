// The dimensions of a problem, and how it is cut along them.
#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "core/field.hpp"
#include "core/supports.hpp"
#include "ops/attention/parts.hpp"

namespace attest::ops::of_attention {
namespace {

// ---- cuts -----------------------------------------------------------------------------------------------------------

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

// The last `n` keys, or coordinates of q and k, alone.
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

// ---- what a dimension may be on its way down ------------------------------------------------------------------------

Index up(Index n, Index by) { return (n + by - 1) / by; }
Index query_heads_per_key_head(const Problem& p) { return p.hkv > 0 ? p.group() : 1; }

template <auto Extent, auto Range>
Rungs alone(const Problem& p, const Supports& s) {
  return down_to(p.*Extent, (s.*Range).min, (s.*Range).step());
}

// The rungs of two dimensions that shrink by the same amount; `n` is the number left.
Rungs together(Index n, const DimRange& one, Index first, const DimRange& other, Index second, Index unit) {
  const Index least = std::max(one.min - (first - n), other.min - (second - n));
  return down_to(n, least, std::lcm(std::lcm(one.step(), other.step()), unit));
}

Rungs rungs_of_rows_and_keys(const Problem& p, const Supports& s) {
  return together(std::min(p.lq, p.lk), s.lq, p.lq, s.lk, p.lk, 1);
}
Rungs rungs_of_both_widths(const Problem& p, const Supports& s) {
  return together(std::min(p.d, p.dv), s.d, p.d, s.dv, p.dv, row_step(s.alignment, p.dtype));
}
Rungs rungs_of_width(const Problem& p, const Supports& s) {
  const Index row = row_step(s.alignment, p.dtype);
  return s.dv_equals_d ? together(p.d, s.d, p.d, s.dv, p.dv, row) : down_to(p.d, s.d.min, std::lcm(s.d.step(), row));
}
Rungs rungs_of_columns(const Problem& p, const Supports& s) {
  if (s.dv_equals_d) return {p.dv, 1};
  return down_to(p.dv, s.dv.min, std::lcm(s.dv.step(), row_step(s.alignment, p.dtype)));
}
// Each of the two numbers of heads stands for as many query heads as the other says.
Rungs rungs_of_heads(Index n, Index other, const DimRange& own, const Supports& s) {
  const Index of_queries = s.hq.step() / std::gcd(s.hq.step(), other);
  return down_to(n, std::max(own.min, up(s.hq.min, other)), std::lcm(own.step(), of_queries));
}
Rungs rungs_of_groups(const Problem& p, const Supports& s) {
  return rungs_of_heads(p.hkv, std::max<Index>(query_heads_per_key_head(p), 1), s.hkv, s);
}
Rungs rungs_of_members(const Problem& p, const Supports& s) {
  return rungs_of_heads(query_heads_per_key_head(p), std::max<Index>(p.hkv, 1), DimRange{}, s);
}

// ---- the list -------------------------------------------------------------------------------------------------------

Dimension number(const Field& field) { return {field.name, field.simplest, field.get, field.set}; }

template <auto Extent>
Dimension extent(Rungs (*rungs)(const Problem&, const Supports&),
                 Problem (*narrow)(Problem, Index, const Witness&) = nullptr) {
  Dimension dimension = number(field_of<Extent>());
  dimension.rungs = rungs;
  dimension.narrow = narrow;
  return dimension;
}

// The smaller of two extents; set, both give way by the same amount.
template <auto One, auto Other>
Dimension tied(std::string_view name, Rungs (*rungs)(const Problem&, const Supports&)) {
  return {name,
          1,
          [](const Problem& p) { return std::min(p.*One, p.*Other); },
          [](Problem& p, Index n) {
            const Index by = std::min(p.*One, p.*Other) - n;
            p.*One -= by;
            p.*Other -= by;
          },
          rungs,
          nullptr,
          true};
}

std::vector<Dimension> make_dimensions() {
  std::vector<Dimension> list{
      extent<&Problem::b>(alone<&Problem::b, &Supports::b>,
                          [](Problem p, Index n, const Witness& at) {
                            cut_batch(p, n, at[0]);
                            return p;
                          }),
      {"hkv", 1, get_member<&Problem::hkv>,
       [](Problem& p, Index n) {
         const Index group = query_heads_per_key_head(p);
         p.hkv = n;
         p.hq = n * group;
       },
       rungs_of_groups,
       [](Problem p, Index n, const Witness& at) {
         cut_heads(p, n, p.group(), at[1]);
         return p;
       }},
      {"group", 1, query_heads_per_key_head, [](Problem& p, Index n) { p.hq = p.hkv * n; }, rungs_of_members,
       [](Problem p, Index n, const Witness& at) {
         cut_heads(p, p.hkv, n, at[1]);
         return p;
       }},
      extent<&Problem::lq>(alone<&Problem::lq, &Supports::lq>,
                           [](Problem p, Index n, const Witness& at) {
                             cut_rows(p, n, at[2]);
                             return p;
                           }),
      extent<&Problem::lk>(alone<&Problem::lk, &Supports::lk>),
      {"last of lk", 1, get_member<&Problem::lk>, [](Problem& p, Index n) { p = last_keys(std::move(p), n); },
       alone<&Problem::lk, &Supports::lk>, nullptr, true},
      tied<&Problem::lq, &Problem::lk>("lq and lk", rungs_of_rows_and_keys),
      extent<&Problem::d>(rungs_of_width),
      {"last of d", 1, get_member<&Problem::d>, [](Problem& p, Index n) { p = last_coordinates(std::move(p), n); },
       rungs_of_width, nullptr, true},
      extent<&Problem::dv>(rungs_of_columns,
                           [](Problem p, Index n, const Witness& at) {
                             cut_columns(p, n, at[3]);
                             return p;
                           }),
      tied<&Problem::d, &Problem::dv>("d and dv", rungs_of_both_widths),
  };
  for (const Field& field : fields()) {
    const bool of_its_own = field.group != FieldGroup::shape && field.group != FieldGroup::origin;
    if (field.kind == FieldKind::integer && of_its_own && field.ladder.empty()) list.push_back(number(field));
  }
  return list;
}

}  // namespace

const std::vector<Dimension>& dimensions() {
  static const std::vector<Dimension> list = make_dimensions();
  return list;
}

Problem capped(Problem p, Index most, const std::optional<Witness>& witness, const Supports& supports) {
  const Witness at = witness.value_or(Witness{});
  const Index group = p.hq > 0 ? p.group() : 1;
  const auto most_of = [&](auto rungs) { return rungs(p, supports).up(most); };
  cut_batch(p, most_of(alone<&Problem::b, &Supports::b>), at[0]);
  // The cap is on query heads: a group first, since sharing a head is the harder case.
  const Index members = std::min(group, most_of(rungs_of_members));
  cut_heads(p, rungs_of_groups(p, supports).up(std::max<Index>(most / members, 1)), members, at[1]);
  cut_rows(p, most_of(alone<&Problem::lq, &Supports::lq>), at[2]);
  p.lk = std::min(p.lk, most_of(alone<&Problem::lk, &Supports::lk>));
  p.d = std::min(p.d, most_of(rungs_of_width));
  cut_columns(p, most_of(rungs_of_columns), at[3]);
  return p;
}

Problem sliced(Problem p, Index samples, const Witness& witness, const Supports& supports) {
  const auto least = [&](auto rungs) { return rungs(p, supports).up(1); };
  cut_batch(p, alone<&Problem::b, &Supports::b>(p, supports).up(samples), witness[0]);
  const Index members = least(rungs_of_members);
  cut_heads(p, least(rungs_of_groups), members, witness[1]);
  cut_rows(p, least(alone<&Problem::lq, &Supports::lq>), witness[2]);
  cut_columns(p, least(rungs_of_columns), witness[3]);
  return p;
}

}  // namespace attest::ops::of_attention
