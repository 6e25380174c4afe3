// single-key: a row with one open key returns that key's value.
//
// The score less itself is exactly 0, its weight exp(0) = 1, the sum 1; a merge with empty splits weighs by exp(0) too.
// So out is v, wherever the value survives the formats on its way (storage, operand, pv, partial, output): V is rounded
// to all of them first. With the exp2 trick z log2 e - z log2 e vanishes surely only for z = 0: there q = 0 and the
// finite biases are 0 (equal_scores.hpp). Elsewhere scores are the problem's own, and elements that a score past some
// format's range may have cost are undetermined. Needs no claim of the subject.
//
// Not with a division off by more than half an ulp. Catches padding that takes part, masks off by one, and factors that
// belong to the scores and land on the values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "properties/compare.hpp"
#include "properties/equal_scores.hpp"
#include "properties/masks.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/single_key.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason single_key_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo&) {
  if (Reason reason = no_single_keys(p, contract)) return reason;
  if (contract.arithmetic.div_ulp > 0.5) return "a division by 1 may round";
  return contract.arithmetic.exp2 ? scores_cannot_vanish(p, contract) : std::nullopt;
}

// Values that every format on the way to the output holds; what overflows there becomes 1.
void round_values(const Policy& policy, bool flush_to_zero, Tensor& v) {
  for_each_stored(v, [&](Index b, Index h, Index j, Index c) {
    double x = v.at(b, h, j, c);
    for (const Stage stage : value_stages) {
      x = round_to(policy[stage], x);
      if (!std::isfinite(x)) x = 1;
      if (flush_to_zero && std::fabs(x) < smallest_normal(policy[stage])) x = 0;
    }
    // A format of wider range may have rounded beyond what storage holds.
    if (!std::isfinite(round_to(policy[Stage::storage], x))) x = 1;
    v.set(b, h, j, c, x);
  });
}

Verdict check_single_key(Trial& trial) {
  const Problem& p = trial.problem();
  const Contract& contract = trial.contract();
  const bool own_scores = !contract.arithmetic.exp2;
  const Masks own_masks(trial.inputs(), contract);
  std::vector<std::pair<Index, Index>> rows;  // row and its key
  for (const Index row : judged_rows(p)) {
    const auto [b, h, i] = row_index(p, row);
    if (const Index key = own_masks.single(b, h, i); key >= 0) rows.emplace_back(row, key);
  }
  if (rows.empty()) return Verdict::skip("no row with a single open key");

  Inputs inputs = own_scores ? trial.inputs().clone() : with_vanishing_scores(trial);
  round_values(contract.policy, contract.arithmetic.flush_to_zero, inputs.v);
  const Result result = trial.run(inputs, p);
  if (result.violation) return Verdict::fail(*result.violation);
  Counts counts;
  for (const auto& [row, key] : rows) {
    const auto [b, h, i] = row_index(p, row);
    for (Index c = 0; c < p.dv; ++c) {
      const double got = result.out.at(b, h, i, c), expected = inputs.v.at(b, h / p.group(), key, c);
      if (got != expected && own_scores && leaves_open(trial, b, h, i, c)) {
        ++counts.undetermined;
        continue;
      }
      ++counts.judged;
      if (got == expected) continue;
      return Verdict::fail(
          exact_evidence({b, h, i, c}, got, expected, fmt::format("key {} is the only one open in this row", key)),
          counts);
    }
  }
  return held(counts);
}

}  // namespace

bool leaves_open(Trial& trial, Index b, Index h, Index i, Index c) {
  const oracle::Enclosure enclosure = trial.oracle().out_enclosure(b, h, i, c);
  return enclosure.nonfinite_ok || enclosure.undetermined || enclosure.zero_ok;
}

Property single_key() {
  return {"single-key",   "one open key j  =>  out = v_j", "a row with a single open key returns its value",
          Kind::exact,    single_key_not_applicable,       check_single_key,
          Asks::base_plan};
}

}  // namespace attest::properties
