#include "engine/traits.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/inputs.hpp"
#include "properties/layout_choice.hpp"

namespace attest::engine {
namespace {

using Kind = Trait::Kind;

Trait field(std::string_view name) {
  const Field* field = find_field(name);
  Trait trait{std::string(name), Kind::number, field->labels, static_cast<double>(field->simplest), {}};
  switch (field->kind) {
    case FieldKind::label:
      trait.kind = Kind::label;
      break;
    case FieldKind::flag:
      trait.kind = Kind::flag;
      break;
    default:
      break;
  }
  if (name == "scale")
    trait.get = [](const Problem& p, const Supports&) { return p.effective_scale(); };
  else if (field->kind == FieldKind::real)
    trait.get = [field](const Problem& p, const Supports&) { return field->get_real(p).value_or(0); };
  else
    trait.get = [field](const Problem& p, const Supports&) { return static_cast<double>(field->get(p)); };
  return trait;
}

template <class Get>
Trait flag(std::string name, Get get) {
  return {std::move(name), Kind::flag, {}, 0, [get](const Problem& p, const Supports&) { return get(p) ? 1.0 : 0.0; }};
}

template <class Get>
Trait number(std::string name, double plain, Get get) {
  return {std::move(name), Kind::number, {}, plain, [get](const Problem& p, const Supports&) {
            return static_cast<double>(get(p));
          }};
}

template <auto Member>
void add_remainders(std::vector<Trait>& all, const std::string& name, std::initializer_list<Index> divisors) {
  for (const Index divisor : divisors)
    all.push_back(
        {name + "%" + std::to_string(divisor), Kind::remainder, {}, 0, [divisor](const Problem& p, const Supports&) {
           return static_cast<double>(p.*Member % divisor);
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

std::vector<Trait> make() {
  std::vector<Trait> all;
  for (const char* name :
       {"causal",       "scale",  "dtype",     "softcap",  "keep",     "bias",     "lengths",    "window_left",
        "window_right", "lse",    "threads",   "lk",       "lq",       "d",        "dv",         "b",
        "hq",           "hkv",    "align",     "q_layout", "k_layout", "v_layout", "out_layout", "mask_layout",
        "bias_type",    "values", "amplitude", "q_form",   "k_form",   "v_form"})
    all.push_back(field(name));
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
  all.push_back(flag("masked", [](const Problem& p) { return p.keep != Keep::none || p.bias != Bias::none; }));
  all.push_back(flag("windowed", [](const Problem& p) { return p.window_left >= 0 || p.window_right >= 0; }));
  all.push_back(flag("bias_excludes", [](const Problem& p) { return may_exclude(p.bias); }));
  all.push_back(flag("broadcast_bias", [](const Problem& p) { return p.bias != Bias::none && p.bias_axes != 15; }));
  all.push_back(flag("broadcast_keep", [](const Problem& p) { return p.keep != Keep::none && p.keep_axes != 15; }));
  all.push_back(number("q_align", 64, [](const Problem& p) { return alignment(p, p.q_layout, p.hq, p.lq, p.d); }));
  all.push_back(number("k_align", 64, [](const Problem& p) { return alignment(p, p.k_layout, p.hkv, p.lk, p.d); }));
  all.push_back(number("v_align", 64, [](const Problem& p) { return alignment(p, p.v_layout, p.hkv, p.lk, p.dv); }));
  all.push_back(number("out_align", 64, [](const Problem& p) { return alignment(p, p.out_layout, p.hq, p.lq, p.dv); }));
  add_remainders<&Problem::d>(all, "d", {2, 4, 8, 16});
  add_remainders<&Problem::dv>(all, "dv", {2, 4, 8, 16});
  add_remainders<&Problem::lk>(all, "lk", {2, 4, 8, 16, 32, 64});
  add_remainders<&Problem::lq>(all, "lq", {2, 4, 8, 16, 32, 64});
  Trait other = field("q_layout");
  other.name = "other_layout";
  other.get = [](const Problem& p, const Supports& supports) {
    return static_cast<double>(properties::other_layout(p, supports));
  };
  all.push_back(std::move(other));
  return all;
}

}  // namespace

std::span<const Trait> traits() {
  static const std::vector<Trait> all = make();
  return all;
}

std::size_t trait_named(std::string_view name) {
  const auto all = traits();
  return static_cast<std::size_t>(std::ranges::find(all, name, &Trait::name) - all.begin());
}

Row row_of(const Problem& problem, const Supports& supports) {
  Row row;
  row.reserve(traits().size());
  for (const Trait& trait : traits()) row.push_back(trait.get(problem, supports));
  return row;
}

}  // namespace attest::engine
