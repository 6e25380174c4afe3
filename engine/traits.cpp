#include "engine/traits.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>

#include "core/field.hpp"
#include "core/inputs.hpp"
#include "properties/layout_choice.hpp"

namespace attest::engine {
namespace {

using Kind = Trait::Kind;

Trait of_field(const Field& field) {
  const Kind kind = field.kind == FieldKind::label  ? Kind::label
                    : field.kind == FieldKind::flag ? Kind::flag
                                                    : Kind::number;
  return {std::string(field.name), kind, field.labels, static_cast<double>(field.simplest),
          [&field](const Looked& at) { return number_of(field, at.problem); }};
}

std::vector<const Field*> fields_by_merit() {
  std::vector<const Field*> rows;
  for (const Field& field : fields())
    if (field.trait != 0) rows.push_back(&field);
  std::ranges::sort(rows, {}, &Field::trait);
  return rows;
}

template <class Get>
Trait flag(std::string name, Get get) {
  return {std::move(name), Kind::flag, {}, 0, [get](const Looked& at) { return get(at.problem) ? 1.0 : 0.0; }};
}

template <class Get>
Trait number(std::string name, double plain, Get get) {
  return {std::move(name), Kind::number, {}, plain, [get](const Looked& at) {
            return static_cast<double>(get(at.problem));
          }};
}

// Of what masks and values come to.
template <class Get>
Trait regime(std::string name, Kind kind, Get get) {
  return {std::move(name), kind, {}, 0, [get](const Looked& at) { return static_cast<double>(get(at)); }};
}

template <auto Member>
void add_remainders(std::vector<Trait>& all, const std::string& name, std::initializer_list<Index> divisors) {
  for (const Index divisor : divisors)
    all.push_back({name + "%" + std::to_string(divisor), Kind::remainder, {}, 0, [divisor](const Looked& at) {
                     return static_cast<double>(at.problem.*Member % divisor);
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

// Whether heads alternate in memory, row by row, in q, k or v.
bool interleaved(const Problem& p) {
  const auto is = [](Layout layout, Index heads, Index rows) {
    return layout == Layout::bshd && heads > 1 && rows > 1;
  };
  return is(p.q_layout, p.hq, p.lq) || is(p.k_layout, p.hkv, p.lk) || is(p.v_layout, p.hkv, p.lk);
}

// Whether the offset of some element of q, k, v, out or a mask takes more than 32 bits.
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

template <auto Member>
Trait row_bytes(std::string name) {
  return {std::move(name), Kind::remainder, {}, 0, [](const Looked& at) {
            const auto bytes = static_cast<Index>(size_of(dtype_of(at.problem.dtype)));
            return static_cast<double>(at.problem.*Member * bytes % 16);
          }};
}

std::vector<Trait> make() {
  std::vector<Trait> all;
  for (const Field* field : fields_by_merit()) all.push_back(of_field(*field));
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
  all.push_back(flag("past_32_bits", goes_past_32_bits));
  all.push_back(flag("interleaved", interleaved));
  all.push_back(flag("masked", [](const Problem& p) { return p.keep != Keep::none || p.bias != Bias::none; }));
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
  all.push_back(regime("closed_keys", Kind::flag, [](const Looked& at) { return at.masking().closed_keys; }));
  all.push_back(regime("mask_closes", Kind::flag, [](const Looked& at) { return at.masking().mask_closes; }));
  all.push_back(regime("last_key", Kind::flag, [](const Looked& at) { return at.masking().last_key; }));
  all.push_back(regime("biased", Kind::flag, [](const Looked& at) { return at.masking().biased; }));
  all.push_back(regime("open_keys", Kind::number, [](const Looked& at) { return at.masking().open_keys; }));
  all.push_back(regime("least_row_bias", Kind::number, [](const Looked& at) { return at.masking().least_row_bias; }));
  all.push_back(regime("least_row_max", Kind::number, [](const Looked& at) { return at.scores().least_row_max; }));
  all.push_back(regime("largest_row_max", Kind::number, [](const Looked& at) { return at.scores().largest_row_max; }));
  all.push_back(regime("largest_spread", Kind::number, [](const Looked& at) { return at.scores().largest_spread; }));
  all.push_back(regime("largest_product", Kind::number, [](const Looked& at) { return at.scores().largest_product; }));
  all.push_back(regime("zero_value", Kind::flag, [](const Looked& at) { return at.values().zero_row; }));
  all.push_back(regime("least_value", Kind::number, [](const Looked& at) { return at.values().least; }));
  all.push_back(regime("largest_value", Kind::number, [](const Looked& at) { return at.values().largest; }));
  add_remainders<&Problem::d>(all, "d", {2, 4, 8, 16});
  add_remainders<&Problem::dv>(all, "dv", {2, 4, 8, 16});
  all.push_back(row_bytes<&Problem::d>("d_bytes%16"));
  all.push_back(row_bytes<&Problem::dv>("dv_bytes%16"));
  add_remainders<&Problem::lk>(all, "lk", {2, 4, 8, 16, 32, 64});
  add_remainders<&Problem::lq>(all, "lq", {2, 4, 8, 16, 32, 64});
  Trait other = of_field(field_of<&Problem::q_layout>());
  other.name = "other_layout";
  other.get = [](const Looked& at) { return static_cast<double>(properties::other_layout(at.problem, at.supports)); };
  all.push_back(std::move(other));
  return all;
}

constexpr std::size_t most_form_traits = 64;
constexpr std::size_t most_values = 4 * most_form_values;  // of forms of one name

// The fixed traits, and behind them those of forms, which never move: rows and predicates know them by position.
struct Table {
  Table() : all(make()), fixed(all.size()) {
    all.reserve(fixed + most_form_traits);
    for (auto& labels : values) labels.reserve(most_values);
  }
  std::vector<Trait> all;
  const std::size_t fixed;
  std::array<std::vector<std::string_view>, most_form_traits> values;
  std::deque<std::string> words;  // that `values` are views of
};

Table& table() {
  static Table the;
  return the;
}

double form_in_effect(const Looked& at, std::string_view name, const std::vector<std::string_view>& values) {
  const auto offer = std::ranges::find(at.supports.forms, name, &FormOffer::name);
  if (offer == at.supports.forms.end()) return -1;
  return static_cast<double>(std::ranges::find(values, form_value(*offer, at.problem.forms)) - values.begin());
}

}  // namespace

std::span<const Trait> traits() { return table().all; }

void know_forms(std::span<const FormOffer> offers) {
  Table& known = table();
  for (const FormOffer& offer : offers) {
    const std::size_t at = trait_named("form." + offer.name), form = at - known.fixed;
    if (form == most_form_traits) return;
    std::vector<std::string_view>& values = known.values[form];
    for (const std::string& value : offer.values)
      if (std::ranges::find(values, value) == values.end() && values.size() < most_values)
        values.push_back(known.words.emplace_back(value));
    if (at == known.all.size())
      known.all.push_back(
          {"form." + offer.name, Kind::label, {}, 0, [name = offer.name, &values](const Looked& looked) {
             return form_in_effect(looked, name, values);
           }});
    known.all[at].labels = values;
    known.all[at].plain = static_cast<double>(std::ranges::find(values, offer.values.front()) - values.begin());
  }
}

std::size_t trait_named(std::string_view name) {
  const auto all = traits();
  return static_cast<std::size_t>(std::ranges::find(all, name, &Trait::name) - all.begin());
}

Row row_of(const Problem& problem, const Supports& supports) {
  Row row;
  row.reserve(traits().size());
  const Looked looked(problem, supports);
  for (const Trait& trait : traits()) row.push_back(trait.get(looked));
  return row;
}

}  // namespace attest::engine
