// lone-key: a row with one open key returns that key's value, in the base call itself.
//
// As single-key, but without a call of its own: values are the problem's, and those that some format on their way does not
// hold are not judged; neither are elements that a score past some format's range may have cost. Not with the exp2
// trick, under which z log2 e - z log2 e need not vanish, nor with a division off by more than half an ulp.
//
// Catches weights that are rounded before they are divided by their sum, a maximum that starts elsewhere than at a score,
// conversions that truncate.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "properties/compare.hpp"
#include "properties/masks.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/single_key.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason lone_key_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo&) {
  if (Reason reason = no_single_keys(p, contract)) return reason;
  if (contract.arithmetic.div_ulp > 0.5) return "a division by 1 may round";
  if (contract.arithmetic.exp2) return "under exp2 a score less itself need not vanish";
  return std::nullopt;
}

// Whether every format between v and out holds this value.
bool survives(const Contract& contract, double x) {
  return std::isfinite(x) && std::ranges::all_of(value_stages, [&](Stage stage) {
           const Format format = contract.policy[stage];
           const bool flushed = contract.arithmetic.flush_to_zero && std::fabs(x) < smallest_normal(format);
           return round_to(format, x) == x && (x == 0 || !flushed);
         });
}

Verdict check_lone_key(Trial& trial) {
  const Problem& p = trial.problem();
  const Contract& contract = trial.contract();
  const Masks masks(trial.inputs(), contract);
  const Result& base = trial.base();
  Counts counts;
  bool any = false;
  for (const Index row : judged_rows(p)) {
    const auto [b, h, i] = row_index(p, row);
    const Index key = single_key(masks, b, h, i, p.lk);
    if (key < 0) continue;
    any = true;
    for (Index c = 0; c < p.dv; ++c) {
      const double got = base.out.at(b, h, i, c), expected = trial.inputs().v.at(b, h / p.group(), key, c);
      if (!survives(contract, expected) || (got != expected && leaves_open(trial, b, h, i, c))) {
        ++counts.undetermined;
        continue;
      }
      ++counts.judged;
      if (got != expected)
        return Verdict::fail(
            exact_evidence({b, h, i, c}, got, expected, fmt::format("key {} is the only one open in this row", key)),
            counts);
    }
  }
  return any ? held(counts) : Verdict::skip("no row with a single open key");
}

}  // namespace

Property lone_key() {
  return {"lone-key",
          "one open key j  =>  out = v_j, in the base call",
          "a row with a single open key returns its value, whatever its score",
          Kind::exact,
          lone_key_not_applicable,
          check_lone_key,
          Asks::base_call};
}

}  // namespace attest::properties
