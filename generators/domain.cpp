#include "generators/domain.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/supports.hpp"

namespace attest {
namespace {

struct NamedRange {
  std::string_view name;
  Range Domain::Fields::*range;
};
using Fields = Domain::Fields;

// The fields that are drawn within a range; the others (scale, softcap, amplitude, seed, rows) have
// generators of their own, and origins and edits belong to the shrinker.
constexpr auto drawn_fields = std::to_array<NamedRange>({
    {"b", &Fields::b},
    {"hq", &Fields::hq},
    {"hkv", &Fields::hkv},
    {"lq", &Fields::lq},
    {"lk", &Fields::lk},
    {"d", &Fields::d},
    {"dv", &Fields::dv},
    {"causal", &Fields::causal},
    {"align", &Fields::align},
    {"window_left", &Fields::window_left},
    {"window_right", &Fields::window_right},
    {"keep", &Fields::keep},
    {"keep_axes", &Fields::keep_axes},
    {"bias", &Fields::bias},
    {"bias_axes", &Fields::bias_axes},
    {"bias_type", &Fields::bias_type},
    {"mask_layout", &Fields::mask_layout},
    {"lengths", &Fields::lengths},
    {"q_layout", &Fields::q_layout},
    {"k_layout", &Fields::k_layout},
    {"v_layout", &Fields::v_layout},
    {"out_layout", &Fields::out_layout},
    {"lse", &Fields::lse},
    {"threads", &Fields::threads},
    {"values", &Fields::values},
    {"q_form", &Fields::q_form},
    {"k_form", &Fields::k_form},
    {"v_form", &Fields::v_form},
});

const NamedRange* find_drawn(std::string_view name) noexcept {
  const auto found = std::find_if(drawn_fields.begin(), drawn_fields.end(),
                                  [&](const NamedRange& field) { return field.name == name; });
  return found == drawn_fields.end() ? nullptr : &*found;
}

Range only(Index value) { return {value, value}; }

Range range_of(DimRange dim) { return {dim.min, dim.max, std::max<Index>(dim.multiple, 1)}; }

Index index_of(Layout layout) { return static_cast<Index>(layout); }

}  // namespace

Range intersect(Range a, Range b) noexcept {
  const Index step = std::lcm(a.multiple, b.multiple);
  const Index lo = std::max(a.lo, b.lo), hi = std::min(a.hi, b.hi);
  return {(lo + step - 1) / step * step, hi - hi % step, step};
}

Domain::Domain(const Supports& supports, std::vector<Format> dtypes)
    : supports_(supports), dtypes_(std::move(dtypes)), forms_(supports.forms) {
  for (const NamedRange& field : drawn_fields) {
    const Field& row = *find_field(field.name);
    fields_.*field.range = {row.lo, row.hi};
  }
  Fields& f = fields_;
  const std::pair<Range Fields::*, DimRange> dims[] = {
      {&Fields::b, supports.b},   {&Fields::hq, supports.hq}, {&Fields::hkv, supports.hkv}, {&Fields::lq, supports.lq},
      {&Fields::lk, supports.lk}, {&Fields::d, supports.d},   {&Fields::dv, supports.dv}};
  for (const auto& [field, dim] : dims) f.*field = intersect(f.*field, range_of(dim));

  if (!supports.top_left) f.align = only(1);
  if (!supports.bottom_right) f.align = only(0);
  const bool diagonal = supports.top_left || supports.bottom_right;
  if (!supports.causal || !diagonal) f.causal = only(0);
  if (!supports.window || !diagonal) f.window_left = f.window_right = only(-1);
  if (!supports.keep) f.keep = only(0);
  if (!supports.bias || std::ranges::find(supports.bias_types, true) == supports.bias_types.end()) f.bias = only(0);
  if (!supports.kv_lengths) f.lengths = only(0);
  if (!supports.lse) f.lse = only(0);

  f.values.hi = static_cast<Index>(values_count) - 1;  // captured activations are given, not drawn
  // A mask that varies along every axis is the only contiguous one.
  if (supports.strides == Supports::Strides::contiguous) f.keep_axes = f.bias_axes = only(15);
  if (supports.strides == Supports::Strides::last_dim_contiguous) f.keep_axes = f.bias_axes = {8, 15};
  // Masks broadcast by their axes, and elements of out must not share memory.
  f.mask_layout.hi = f.out_layout.hi = index_of(Layout::broadcast_batch) - 1;
  settle();
}

bool Domain::narrows(std::string_view field) noexcept { return find_drawn(field) != nullptr; }

void Domain::narrow(std::string_view field, Index lo, Index hi) {
  const NamedRange* const found = find_drawn(field);
  if (!found) throw usage_error("field " + std::string(field) + " has no range to narrow: state it as a predicate");
  fields_.*found->range = intersect(fields_.*found->range, {lo, hi});
  settle();
}

void Domain::narrow_form(std::string_view form, const std::function<bool(std::string_view)>& keeps) {
  const auto found = std::ranges::find(forms_, form, &FormOffer::name);
  if (found == forms_.end()) throw usage_error("the subject has no form." + std::string(form));
  std::erase_if(found->values, [&](const std::string& value) { return !keeps(value); });
  if (found->values.empty()) throw usage_error("the domain holds no problem: nothing is left of form." + found->name);
}

const std::vector<std::string>& Domain::values_of(const FormOffer& offer) const {
  return std::ranges::find(forms_, offer.name, &FormOffer::name)->values;
}

void Domain::assume(std::function<bool(const Problem&)> predicate) { predicates_.push_back(std::move(predicate)); }

bool Domain::accepts(const Problem& problem) const {
  return std::all_of(predicates_.begin(), predicates_.end(), [&](const auto& predicate) { return predicate(problem); });
}

bool Domain::allows(Layout layout, Format dtype) const {
  const bool odd_rows = row_step(supports_.alignment, dtype) == 1;
  switch (layout) {
    case Layout::bhsd:
      return true;
    case Layout::odd_base:
      return odd_rows;
    case Layout::padded_rows:
    case Layout::slice:
      return odd_rows && supports_.strides != Supports::Strides::contiguous;
    case Layout::transposed:
      return odd_rows && supports_.strides == Supports::Strides::any;
    case Layout::spaced:
      return supports_.strides == Supports::Strides::any;
    case Layout::far:
      return supports_.far && supports_.strides != Supports::Strides::contiguous;
    case Layout::bshd:
    case Layout::broadcast_batch:
    case Layout::broadcast_heads:
    case Layout::broadcast_rows:
      return supports_.strides != Supports::Strides::contiguous;
  }
  return false;
}

bool Domain::offers(BiasType type, Format dtype) const {
  const auto taken = [&](BiasType bias) {
    return supports_.bias_types[static_cast<std::size_t>(bias)] && fields_.bias_type.contains(static_cast<Index>(bias));
  };
  Problem problem;
  problem.dtype = dtype;
  problem.bias_type = type;
  const bool repeats = type != BiasType::same && problem.bias_format() == dtype;
  return taken(type) && !(repeats && taken(BiasType::same));
}

Range Domain::width(Range range, Format dtype) const {
  return intersect(range, {0, range.hi, row_step(supports_.alignment, dtype)});
}

// Makes the ranges of fields that depend on each other agree, so that each can be drawn in turn.
void Domain::settle() {
  Fields& f = fields_;
  if (supports_.dv_equals_d) f.d = f.dv = intersect(f.d, f.dv);
  if (!supports_.gqa) {
    f.hq = f.hkv = intersect(f.hq, f.hkv);
  } else if (f.hkv.hi >= f.hq.hi) {  // hkv = hq is always there to take
    f.hq = intersect(f.hq, {f.hkv.lo, f.hq.hi, f.hkv.multiple});
  } else {  // the smallest hkv divides; of none at all there are no queries
    const Index step = f.hkv.multiple, least = (std::max<Index>(f.hkv.lo, 1) + step - 1) / step * step;
    f.hq = intersect(f.hq, least > f.hkv.hi ? only(0) : Range{f.hkv.lo, f.hq.hi, least});
  }
  check();
}

void Domain::check() const {
  if (dtypes_.empty()) throw usage_error("the domain holds no problem: no dtype to draw");
  const auto require = [](bool some, std::string_view field) {
    if (!some) throw usage_error("the domain holds no problem: nothing is left of " + std::string(field));
  };
  for (const NamedRange& field : drawn_fields) require(!(fields_.*field.range).empty(), field.name);
  const std::pair<Range, std::string_view> layouts[] = {{fields_.q_layout, "q_layout"},
                                                        {fields_.k_layout, "k_layout"},
                                                        {fields_.v_layout, "v_layout"},
                                                        {fields_.out_layout, "out_layout"},
                                                        {fields_.mask_layout, "mask_layout"}};
  for (const Format dtype : dtypes_) {
    require(!width(fields_.d, dtype).empty(), "d");
    require(!width(fields_.dv, dtype).empty(), "dv");
    bool some_bias = fields_.bias.hi == 0;
    for (Index type = fields_.bias_type.lo; type <= fields_.bias_type.hi; ++type)
      some_bias = some_bias || offers(static_cast<BiasType>(type), dtype);
    require(some_bias, "bias_type");
    for (const auto& [range, field] : layouts) {
      bool some = false;
      for (Index layout = range.lo; layout <= range.hi; ++layout)
        some = some || allows(static_cast<Layout>(layout), dtype);
      require(some, field);
    }
  }
  const auto least = [](Range range) { return std::max<Index>(range.lo, 1); };
  Problem smallest;
  smallest.b = least(fields_.b);
  smallest.hq = smallest.hkv = least(fields_.hq);
  smallest.lq = least(fields_.lq);
  smallest.lk = least(fields_.lk);
  smallest.d = least(fields_.d);
  smallest.dv = least(fields_.dv);
  validate(smallest);
}

}  // namespace attest
