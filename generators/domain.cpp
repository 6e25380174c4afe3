#include "generators/domain.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/supports.hpp"

namespace attest {
namespace {

Range only(Index value) { return {value, value}; }

Range range_of(DimRange dim) { return {dim.min, dim.max, std::max<Index>(dim.multiple, 1)}; }

}  // namespace

Range intersect(Range a, Range b) noexcept {
  const Index step = a.multiple == b.multiple ? a.multiple : std::lcm(a.multiple, b.multiple);
  const Index lo = std::max(a.lo, b.lo), hi = std::min(a.hi, b.hi);
  if (step == 1) return {lo, hi, step};
  return {(lo + step - 1) / step * step, hi - hi % step, step};
}

Domain::Domain(const Supports& supports, std::vector<Format> dtypes)
    : supports_(supports), dtypes_(std::move(dtypes)), ranges_(fields().size()), forms_(supports.forms) {
  for (const Field& field : fields()) {
    if (!field.drawn) continue;
    Range& range = of(field) = {field.lo, field.hi};
    if (!field.labels.empty()) range.hi = std::ssize(field.weights) - 1;
    if (field.extent) range = intersect(range, range_of(supports.*field.extent));
    if (field.offered && !(supports.*field.offered)) range = only(field.simplest);
  }
  if (!supports.top_left) of<&Problem::align>() = only(1);
  if (!supports.bottom_right) of<&Problem::align>() = only(0);
  if (!supports.top_left && !supports.bottom_right) {
    of<&Problem::causal>() = only(0);
    of<&Problem::window_left>() = of<&Problem::window_right>() = only(-1);
  }
  if (std::ranges::find(supports.bias_types, true) == supports.bias_types.end()) of<&Problem::bias>() = only(0);
  Range &keep_axes = of<&Problem::keep_axes>(), &bias_axes = of<&Problem::bias_axes>();
  // A mask that varies along every axis is the only contiguous one.
  if (supports.strides == Supports::Strides::contiguous) keep_axes = bias_axes = only(15);
  if (supports.strides == Supports::Strides::last_dim_contiguous) keep_axes = bias_axes = {8, 15};
  for (const Format dtype : dtypes_)
    for (std::size_t layout = 0; layout < layout_count; ++layout)
      if (permits(static_cast<Layout>(layout), dtype))
        allowed_[static_cast<std::size_t>(dtype)] |= std::uint32_t{1} << layout;
  settle();
}

bool Domain::narrows(std::string_view field) noexcept {
  const Field* const found = find_field(field);
  return found && found->drawn;
}

void Domain::narrow(std::string_view field, Index lo, Index hi) {
  if (!narrows(field))
    throw usage_error("field " + std::string(field) + " has no range to narrow: state it as a predicate");
  Range& range = of(*find_field(field));
  range = intersect(range, {lo, hi});
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

void Domain::say_form_where(std::string_view form, std::string_view value, std::function<bool(const Problem&)> says) {
  if (std::ranges::find(forms_, form, &FormOffer::name) == forms_.end())
    throw usage_error("the subject has no form." + std::string(form));
  where_.push_back({std::string(form), std::string(value), std::move(says)});
}

bool Domain::may_say(const FormOffer& offer, const Problem& problem) const {
  const std::string& value = form_value(offer, problem.forms);
  const auto has = [&](const FormChoice& need) {
    return form_value(*std::ranges::find(supports_.forms, need.name, &FormOffer::name), problem.forms) == need.value;
  };
  return std::ranges::all_of(
             offer.rules,
             [&](const FormRule& rule) { return rule.value != value || std::ranges::all_of(rule.needs, has); }) &&
         std::ranges::all_of(where_, [&](const Says& one) {
           return one.form != offer.name || one.value != value || one.says(problem);
         });
}

void Domain::assume(std::function<bool(const Problem&)> predicate) { predicates_.push_back(std::move(predicate)); }

bool Domain::accepts(const Problem& problem) const {
  return std::all_of(predicates_.begin(), predicates_.end(), [&](const auto& predicate) { return predicate(problem); });
}

bool Domain::permits(Layout layout, Format dtype) const {
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
    return supports_.bias_types[static_cast<std::size_t>(bias)] &&
           range<&Problem::bias_type>().contains(static_cast<Index>(bias));
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
  Range &hq = of<&Problem::hq>(), &hkv = of<&Problem::hkv>(), &d = of<&Problem::d>(), &dv = of<&Problem::dv>();
  if (supports_.dv_equals_d) d = dv = intersect(d, dv);
  if (!supports_.gqa) {
    hq = hkv = intersect(hq, hkv);
  } else if (hkv.hi >= hq.hi) {  // hkv = hq is always there to take
    hq = intersect(hq, {hkv.lo, hq.hi, hkv.multiple});
  } else {  // the smallest hkv divides; of none at all there are no queries
    const Index step = hkv.multiple, least = (std::max<Index>(hkv.lo, 1) + step - 1) / step * step;
    hq = intersect(hq, least > hkv.hi ? only(0) : Range{hkv.lo, hq.hi, least});
  }
  for (const Format dtype : dtypes_) widths_[static_cast<std::size_t>(dtype)] = {width(d, dtype), width(dv, dtype)};
  check();
}

void Domain::check() const {
  if (dtypes_.empty()) throw usage_error("the domain holds no problem: no dtype to draw");
  const auto require = [](bool some, std::string_view field) {
    if (!some) throw usage_error("the domain holds no problem: nothing is left of " + std::string(field));
  };
  for (const Field& field : fields())
    if (field.drawn) require(!range(field).empty(), field.name);
  for (const Format dtype : dtypes_) {
    require(!widths(dtype).d.empty(), "d");
    require(!widths(dtype).dv.empty(), "dv");
    bool some_bias = range<&Problem::bias>().hi == 0;
    const Range types = range<&Problem::bias_type>();
    for (Index type = types.lo; type <= types.hi; ++type)
      some_bias = some_bias || offers(static_cast<BiasType>(type), dtype);
    require(some_bias, "bias_type");
    for (const Field& field : fields()) {
      if (field.group != FieldGroup::layouts) continue;
      bool some = false;
      for (Index layout = range(field).lo; layout <= range(field).hi; ++layout)
        some = some || allows(static_cast<Layout>(layout), dtype);
      require(some, field.name);
    }
  }
  Problem smallest;
  for (const Field& field : fields())
    if (field.extent) field.set(smallest, std::max<Index>(range(field).lo, 1));
  smallest.hkv = smallest.hq;
  validate(smallest);
}

}  // namespace attest
