#include "ops/attention.hpp"
#include "ops/attention/parts.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/field.hpp"
#include "core/inputs.hpp"
#include "core/tensor.hpp"
#include "ops/attention/regime.hpp"
#include "properties/layout_choice.hpp"

namespace attest::ops::of_attention {
namespace {

using Kind = Trait::Kind;

const Problem& problem_of(const Looked& at) { return at.problem.as<Problem>(); }

// The regimes of a problem's masks and values, each computed once.
struct Regimes {
  std::optional<Masking> masking;
  std::optional<Scores> scores;
  std::optional<ValueRange> values;
};
template <class T>
const T& regime_of(const Looked& at, std::optional<T> Regimes::*part, T (*find)(const Problem&)) {
  std::optional<T>& known = at.notes<Regimes>().*part;
  if (!known) known = find(problem_of(at));
  return *known;
}
const Masking& masking(const Looked& at) { return regime_of(at, &Regimes::masking, masking_of); }
const Scores& scores(const Looked& at) { return regime_of(at, &Regimes::scores, scores_of); }
const ValueRange& values(const Looked& at) { return regime_of(at, &Regimes::values, values_of); }

template <class Get>
Trait flag(std::string name, Get get) {
  return {std::move(name), Kind::flag, {}, 0, [get](const Looked& at) { return get(problem_of(at)) ? 1.0 : 0.0; }};
}

template <class Get>
Trait number(std::string name, double plain, Get get) {
  return {std::move(name), Kind::number, {}, plain, [get](const Looked& at) {
            return static_cast<double>(get(problem_of(at)));
          }};
}

// A trait of the regimes of masks and values.
template <class Get>
Trait regime(std::string name, Kind kind, Get get) {
  return {std::move(name), kind, {}, 0, [get](const Looked& at) { return static_cast<double>(get(at)); }};
}

template <auto Member>
void add_remainders(std::vector<Trait>& all, const std::string& name, std::initializer_list<Index> divisors) {
  for (const Index divisor : divisors)
    all.push_back({name + "%" + std::to_string(divisor), Kind::remainder, {}, 0, [divisor](const Looked& at) {
                     return static_cast<double>(problem_of(at).*Member % divisor);
                   }});
}

// The bytes, at most 64, that divide the tensor's base and the distance of its rows.
Index alignment(const Problem& p, Layout layout, Index heads, Index rows, Index width) {
  const auto bytes = static_cast<Index>(size_of(dtype_of(p.dtype)));
  const Placement placed = place(layout, {p.b, heads, rows, width});
  Index aligned = 64;
  const auto reduce = [&](Index n) {
    while (n % aligned != 0) aligned /= 2;
  };
  reduce(std::abs(placed.base_offset) * bytes);
  if (rows > 1) reduce(placed.strides[2] * bytes);
  if (heads > 1) reduce(placed.strides[1] * bytes);
  return aligned;
}

// Tells whether heads alternate in memory, row by row, in q, k or v.
bool interleaved(const Problem& p) {
  const auto is = [](Layout layout, Index heads, Index rows) {
    return layout == Layout::bshd && heads > 1 && rows > 1;
  };
  return is(p.q_layout, p.hq, p.lq) || is(p.k_layout, p.hkv, p.lk) || is(p.v_layout, p.hkv, p.lk);
}

// Tells whether the offset of some element of q, k, v, out or a mask takes more than 32 bits.
bool goes_past_32_bits(const Problem& p) {
  const auto is = [](Layout layout, const std::array<Index, 4>& shape, Index axes = 15) {
    return past_32_bits(shape, place(layout, shape, ~static_cast<unsigned>(axes) & 15u).strides);
  };
  const std::array<Index, 4> mask{p.b, p.hq, p.lq, p.lk};
  return is(p.q_layout, {p.b, p.hq, p.lq, p.d}) || is(p.k_layout, {p.b, p.hkv, p.lk, p.d}) ||
         is(p.v_layout, {p.b, p.hkv, p.lk, p.dv}) || is(p.out_layout, {p.b, p.hq, p.lq, p.dv}) ||
         (p.keep != Keep::none && is(p.mask_layout, mask, p.keep_axes)) ||
         (p.bias != Bias::none && is(p.mask_layout, mask, p.bias_axes));
}

bool has_mask(const Problem& p) { return p.keep != Keep::none || p.bias != Bias::none || p.lengths != Lengths::none; }

// Tells whether masks say the same of the keys for all samples, heads and queries.
bool has_mask_of_keys(const Problem& p) {
  const Index differ =
      (p.b > 1 ? 1 : 0) | (p.hq > 1 ? 2 : 0) | (p.lq > 1 ? 4 : 0);  // as keep_axes and bias_axes have them
  return has_mask(p) && (p.keep == Keep::none || (p.keep_axes & differ) == 0) &&
         (p.bias == Bias::none || (p.bias_axes & differ) == 0) && (p.lengths == Lengths::none || p.b == 1);
}

// Tells whether a mask has one row for several queries.
bool has_one_mask_row(const Problem& p) {
  constexpr Index queries = 4;
  return p.lq > 1 && ((p.keep != Keep::none && (p.keep_axes & queries) == 0) ||
                      (p.bias != Bias::none && (p.bias_axes & queries) == 0) || p.lengths != Lengths::none);
}

template <auto Member>
Trait row_bytes(std::string name) {
  return {std::move(name), Kind::remainder, {}, 0, [](const Looked& at) {
            const auto bytes = static_cast<Index>(size_of(dtype_of(problem_of(at).dtype)));
            return static_cast<double>(problem_of(at).*Member * bytes % 16);
          }};
}

std::vector<Trait> make() {
  std::vector<Trait> all;
  // First, since a layout that goes that far in one tensor goes as far in the others: it is the cause, whichever of
  // them shows it.
  all.push_back(flag("past_32_bits", goes_past_32_bits));
  for (const ops::Field* field : fields_by_merit(attention_op())) all.push_back(trait_of(*field));
  all.push_back(flag("scale_given", [](const Problem& p) { return p.scale.has_value(); }));
  all.push_back(number("group", 1, [](const Problem& p) { return p.hkv > 0 ? p.hq / p.hkv : 1; }));
  all.push_back(flag("lq<lk", [](const Problem& p) { return p.lq < p.lk; }));
  all.push_back(flag("lq>lk", [](const Problem& p) { return p.lq > p.lk; }));
  all.push_back(flag("lq!=lk", [](const Problem& p) { return p.lq != p.lk; }));
  all.push_back(flag("d!=dv", [](const Problem& p) { return p.d != p.dv; }));
  all.push_back(flag("strided", [](const Problem& p) {
    return p.q_layout != Layout::bhsd || p.k_layout != Layout::bhsd || p.v_layout != Layout::bhsd ||
           p.out_layout != Layout::bhsd;
  }));
  all.push_back(flag("interleaved", interleaved));
  all.push_back(flag("masked", [](const Problem& p) { return p.keep != Keep::none || p.bias != Bias::none; }));
  all.push_back(flag("any_mask", has_mask));
  all.push_back(number("masks", 0, [](const Problem& p) {
    return int{has_diagonal(p)} + int{p.keep != Keep::none} + int{p.bias != Bias::none} +
           int{p.lengths != Lengths::none};
  }));
  all.push_back(flag("mask_of_keys", has_mask_of_keys));
  all.push_back(flag("one_mask_row", has_one_mask_row));
  all.push_back(flag("windowed", [](const Problem& p) { return p.window_left >= 0 || p.window_right >= 0; }));
  all.push_back(flag("diagonal", has_diagonal));
  all.push_back(flag("right_edge", [](const Problem& p) { return p.causal || p.window_right >= 0; }));
  all.push_back(flag("bias_excludes", [](const Problem& p) { return may_exclude(p.bias); }));
  all.push_back(flag("bias_by_batch",
                     [](const Problem& p) { return p.bias != Bias::none && p.b > 1 && (p.bias_axes & 1) != 0; }));
  all.push_back(flag("bias_by_head",
                     [](const Problem& p) { return p.bias != Bias::none && p.hq > 1 && (p.bias_axes & 2) != 0; }));
  all.push_back(flag("keep_by_batch",
                     [](const Problem& p) { return p.keep != Keep::none && p.b > 1 && (p.keep_axes & 1) != 0; }));
  all.push_back(flag("keep_by_head",
                     [](const Problem& p) { return p.keep != Keep::none && p.hq > 1 && (p.keep_axes & 2) != 0; }));
  all.push_back(flag("broadcast_bias", [](const Problem& p) { return p.bias != Bias::none && p.bias_axes != 15; }));
  all.push_back(flag("broadcast_keep", [](const Problem& p) { return p.keep != Keep::none && p.keep_axes != 15; }));
  all.push_back(number("q_align", 64, [](const Problem& p) { return alignment(p, p.q_layout, p.hq, p.lq, p.d); }));
  all.push_back(number("k_align", 64, [](const Problem& p) { return alignment(p, p.k_layout, p.hkv, p.lk, p.d); }));
  all.push_back(number("v_align", 64, [](const Problem& p) { return alignment(p, p.v_layout, p.hkv, p.lk, p.dv); }));
  all.push_back(number("out_align", 64, [](const Problem& p) { return alignment(p, p.out_layout, p.hq, p.lq, p.dv); }));
  all.push_back(regime("closed_keys", Kind::flag, [](const Looked& at) { return masking(at).closed_keys; }));
  all.push_back(regime("mask_closes", Kind::flag, [](const Looked& at) { return masking(at).mask_closes; }));
  all.push_back(regime("last_key", Kind::flag, [](const Looked& at) { return masking(at).last_key; }));
  all.push_back(regime("biased", Kind::flag, [](const Looked& at) { return masking(at).biased; }));
  all.push_back(regime("open_keys", Kind::number, [](const Looked& at) { return masking(at).open_keys; }));
  all.push_back(regime("least_row_bias", Kind::number, [](const Looked& at) { return masking(at).least_row_bias; }));
  all.push_back(regime("least_row_max", Kind::number, [](const Looked& at) { return scores(at).least_row_max; }));
  all.push_back(regime("largest_row_max", Kind::number, [](const Looked& at) { return scores(at).largest_row_max; }));
  all.push_back(regime("largest_spread", Kind::number, [](const Looked& at) { return scores(at).largest_spread; }));
  all.push_back(regime("largest_product", Kind::number, [](const Looked& at) { return scores(at).largest_product; }));
  all.push_back(regime("closed_lead", Kind::number, [](const Looked& at) { return scores(at).closed_lead; }));
  all.push_back(regime("zero_value", Kind::flag, [](const Looked& at) { return values(at).zero_row; }));
  all.push_back(regime("least_value", Kind::number, [](const Looked& at) { return values(at).least; }));
  all.push_back(regime("largest_value", Kind::number, [](const Looked& at) { return values(at).largest; }));
  add_remainders<&Problem::d>(all, "d", {2, 4, 8, 16});
  add_remainders<&Problem::dv>(all, "dv", {2, 4, 8, 16});
  all.push_back(row_bytes<&Problem::d>("d_bytes%16"));
  all.push_back(row_bytes<&Problem::dv>("dv_bytes%16"));
  add_remainders<&Problem::lk>(all, "lk", {2, 4, 8, 16, 32, 64});
  add_remainders<&Problem::lq>(all, "lq", {2, 4, 8, 16, 32, 64});
  Trait other = trait_of(*attention_op().find_field("q_layout"));
  other.name = "other_layout";
  other.get = [](const Looked& at) {
    return static_cast<double>(properties::other_layout(problem_of(at), at.supports.attention));
  };
  all.push_back(std::move(other));
  return all;
}

}  // namespace

std::vector<Trait> traits() { return make(); }

}  // namespace attest::ops::of_attention
