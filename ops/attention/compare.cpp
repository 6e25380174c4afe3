// The forms, options and sizes of attention that two subjects have in common, for comparisons.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/contract_numbers.hpp"
#include "core/error.hpp"
#include "core/field.hpp"
#include "core/in_common.hpp"
#include "ops/attention/parts.hpp"

namespace attest::ops::of_attention {
namespace {

SubjectInfo narrowed(SubjectInfo info, const Supports& supports, const std::vector<Format>& dtypes,
                     const std::optional<Policy>& policy) {
  const std::vector<std::size_t> places = places_of(dtypes, info.dtypes);
  info.dtypes = dtypes;
  info.supports = supports;
  info.policies = picked(info.policies, places);
  info.arithmetic = picked(info.arithmetic, places);
  for (FormContract& own : info.form_contracts) own.contracts = picked(own.contracts, places);
  if (!policy) return info;
  const auto put = [&](Policy& one) {
    if (one[Stage::storage] == (*policy)[Stage::storage]) one = *policy;
  };
  for (Policy& one : info.policies) put(one);
  for (FormContract& own : info.form_contracts)
    for (Contract& contract : own.contracts) put(contract.policy);
  return info;
}

void require_some(const SubjectInfo& a, const SubjectInfo& b, const Supports& s) {
  const auto nothing = [&](std::string_view what) { return nothing_in_common(a, b, what); };
  for (const Field& field : attest::fields()) {
    if (!field.extent) continue;
    const DimRange& dim = s.*field.extent;
    if (!holds_some(dim)) throw nothing(fmt::format("there is no {} that both take", field.name));
  }
}

bool has_form(const std::vector<FormOffer>& forms, std::string_view name) {
  return std::ranges::find(forms, name, &FormOffer::name) != forms.end();
}

// Tells whether a predicate speaks of no form but these.
bool speaks_of(const std::vector<FormOffer>& forms, std::string_view predicate) {
  for (auto at = predicate.find(form_prefix); at != predicate.npos; at = predicate.find(form_prefix, at + 1)) {
    const std::string_view rest = predicate.substr(at + form_prefix.size());
    if (!has_form(forms, rest.substr(0, rest.find_first_of("=! ")))) return false;
  }
  return true;
}

// Adds the conditions that `b` states on drawn problems, as far as they speak of forms that both have.
void join_drawn(Supports& s, const Supports& b) {
  for (FormOffer& offer : s.forms)
    std::erase_if(offer.rules, [&](const FormRule& rule) {
      return !speaks_of(s.forms, rule.where) ||
             !std::ranges::all_of(rule.needs, [&](const FormChoice& need) { return has_form(s.forms, need.name); });
    });
  if (!speaks_of(s.forms, s.drawn)) s.drawn.clear();
  if (b.drawn.empty() || b.drawn == s.drawn || !speaks_of(s.forms, b.drawn)) return;
  s.drawn = s.drawn.empty() ? b.drawn : "(" + s.drawn + ") && (" + b.drawn + ")";
}

}  // namespace

Supports common(const Supports& a, const Supports& b) {
  Supports s = a;
  for (const Field& field : attest::fields()) {
    if (field.offered) s.*field.offered = a.*field.offered && b.*field.offered;
    if (field.extent) s.*field.extent = common(a.*field.extent, b.*field.extent);
  }
  for (bool Supports::*flag : {&Supports::top_left, &Supports::bottom_right, &Supports::gqa, &Supports::far})
    s.*flag = a.*flag && b.*flag;
  for (std::size_t type = 0; type < bias_type_count; ++type)
    s.bias_types[type] = a.bias_types[type] && b.bias_types[type];
  s.bias = s.bias && std::ranges::count(s.bias_types, true) > 0;
  s.scale = std::max(a.scale, b.scale);  // in the order of what they take, the most first
  s.strides = std::max(a.strides, b.strides);
  s.alignment = std::lcm(std::max<Index>(a.alignment, 1), std::max<Index>(b.alignment, 1));
  s.dv_equals_d = a.dv_equals_d || b.dv_equals_d;
  std::erase_if(s.stages, [&](const std::string& stage) { return std::ranges::count(b.stages, stage) == 0; });
  std::erase_if(s.forms, [&](const FormOffer& offer) { return std::ranges::count(b.forms, offer) == 0; });
  s.shapes_share_plans = a.shapes_share_plans && b.shapes_share_plans;
  join_drawn(s, b);
  return s;
}

std::pair<SubjectInfo, SubjectInfo> narrowed_to_both(const SubjectInfo& a, const SubjectInfo& b,
                                                     const std::vector<Format>& dtypes,
                                                     const std::optional<Policy>& policy) {
  const Supports supports = common(a.supports, b.supports);
  require_some(a, b, supports);
  std::pair both{narrowed(a, supports, dtypes, policy), narrowed(b, supports, dtypes, policy)};
  if (policy)
    for (const SubjectInfo* info : {&both.first, &both.second})
      check_numbers(info->contract((*policy)[Stage::storage]));
  both.first.policy_declared = both.first.policy_declared && both.second.policy_declared;  // said aloud of either
  return both;
}

}  // namespace attest::ops::of_attention
