// The forms, options and sizes of layer_norm that two subjects have in common, for comparisons.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "core/in_common.hpp"
#include "ops/layer_norm/parts.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::Stage;

SubjectInfo narrowed(SubjectInfo info, const Supports& supports, const std::vector<Format>& dtypes,
                     const std::optional<Policy>& policy) {
  attest::layer_norm::Offer& offer = info.layer_norm.value();
  const std::vector<std::size_t> places = places_of(dtypes, offer.dtypes);
  offer.dtypes = dtypes;
  offer.supports = supports;
  offer.policies = picked(offer.policies, places);
  offer.arithmetic = picked(offer.arithmetic, places);
  if (policy)
    for (Policy& one : offer.policies)
      if (one[Stage::storage] == (*policy)[Stage::storage]) one = *policy;
  return info;
}

void require_some(const SubjectInfo& a, const SubjectInfo& b, const Supports& s) {
  const auto nothing = [&](std::string_view what) { return nothing_in_common(a, b, what); };
  if (!s.layer && !s.rms) throw nothing("the one is LayerNorm alone, the other RMSNorm");
  if (!s.residual && !s.no_residual) throw nothing("the one needs a residual, and the other takes none");
  if (!s.gamma && !s.no_gamma) throw nothing("the one needs gamma, and the other takes none");
  if (!s.beta && !s.no_beta) throw nothing("the one needs beta, and the other takes none");
  if (!holds_some(s.rows)) throw nothing("there is no number of rows that both take");
  if (!holds_some(s.hidden)) throw nothing("there is no hidden that both take");
}

}  // namespace

Supports common(const Supports& a, const Supports& b) {
  Supports s = a;
  for (bool Supports::*flag : {&Supports::layer, &Supports::rms, &Supports::residual, &Supports::sum_out,
                               &Supports::gamma, &Supports::beta, &Supports::no_residual, &Supports::no_gamma,
                               &Supports::no_beta, &Supports::param_same, &Supports::param_f32, &Supports::far})
    s.*flag = a.*flag && b.*flag;
  s.strides = std::max(a.strides, b.strides);
  s.alignment = std::lcm(std::max<Index>(a.alignment, 1), std::max<Index>(b.alignment, 1));
  s.rows = attest::common(a.rows, b.rows);
  s.hidden = attest::common(a.hidden, b.hidden);
  return s;
}

std::pair<SubjectInfo, SubjectInfo> narrowed_to_both(const SubjectInfo& a, const SubjectInfo& b,
                                                     const std::vector<Format>& dtypes,
                                                     const std::optional<Policy>& policy) {
  const Supports supports = common(a.layer_norm.value().supports, b.layer_norm.value().supports);
  require_some(a, b, supports);
  return both_narrowed(a, b, &SubjectInfo::layer_norm,
                       [&](const SubjectInfo& info) { return narrowed(info, supports, dtypes, policy); });
}

}  // namespace attest::ops::of_layer_norm
