// The forms, options and sizes of mha that two subjects have in common, for comparisons.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "core/in_common.hpp"
#include "ops/mha/parts.hpp"

namespace attest::ops::of_mha {
namespace {

SubjectInfo narrowed(SubjectInfo info, const Supports& supports, const std::vector<Format>& dtypes,
                     const std::optional<Policy>& policy) {
  attest::mha::Offer& offer = info.mha.value();
  offer.contracts = picked(offer.contracts, places_of(dtypes, offer.dtypes));
  offer.dtypes = dtypes;
  offer.supports = supports;
  if (!policy) return info;
  for (Contract& one : offer.contracts) {
    if (one.attention.policy[Stage::storage] != policy->attention[Stage::storage]) continue;
    one.attention.policy = policy->attention;
    one.gemm = policy->gemm;
    check(one);
  }
  return info;
}

void require_some(const SubjectInfo& a, const SubjectInfo& b, const Supports& s) {
  const auto nothing = [&](std::string_view what) { return nothing_in_common(a, b, what); };
  if (!s.self && !s.cross) throw nothing("the one does self-attention alone, the other takes another memory alone");
  if (!s.in_biases && !s.no_in_biases) throw nothing("the one needs b_q, b_k and b_v, and the other takes none");
  if (!s.out_bias && !s.no_out_bias) throw nothing("the one needs b_out, and the other takes none");
  for (const Field& field : attest::mha::fields())
    if (field.extent && !holds_some(s.*field.extent))
      throw nothing(fmt::format("there is no {} that both take", field.name));
}

}  // namespace

Supports common(const Supports& a, const Supports& b) {
  Supports s = a;
  for (bool Supports::*flag :
       {&Supports::self, &Supports::cross, &Supports::in_biases, &Supports::no_in_biases, &Supports::out_bias,
        &Supports::no_out_bias, &Supports::causal, &Supports::top_left, &Supports::bottom_right, &Supports::gqa,
        &Supports::bias, &Supports::keep, &Supports::kv_lengths, &Supports::far, &Supports::stage_q, &Supports::stage_k,
        &Supports::stage_v, &Supports::stage_heads})
    s.*flag = a.*flag && b.*flag;
  for (const Field& field : attest::mha::fields())
    if (field.extent) s.*field.extent = attest::common(a.*field.extent, b.*field.extent);
  s.scale = std::max(a.scale, b.scale);  // in the order of what they take, the most first
  s.strides = std::max(a.strides, b.strides);
  s.alignment = std::lcm(std::max<Index>(a.alignment, 1), std::max<Index>(b.alignment, 1));
  s.heads_fill_e = a.heads_fill_e || b.heads_fill_e;
  return s;
}

std::pair<SubjectInfo, SubjectInfo> narrowed_to_both(const SubjectInfo& a, const SubjectInfo& b,
                                                     const std::vector<Format>& dtypes,
                                                     const std::optional<Policy>& policy) {
  const Supports supports = common(a.mha.value().supports, b.mha.value().supports);
  require_some(a, b, supports);
  return both_narrowed(a, b, &SubjectInfo::mha,
                       [&](const SubjectInfo& info) { return narrowed(info, supports, dtypes, policy); });
}

}  // namespace attest::ops::of_mha
