// hull: an output is a weighted mean, and lies between the least and the largest value that its row attends to.
//
// The ends are widened by the rounding error of a mean: x and g of docs/bounds.md, section 4. Wherever the enclosure
// judges, the law follows from it. It also holds where the enclosure leaves a finite number undetermined since the sum
// of the weights may be infinite, as under a softmax of f16 with many keys or large scores; there 0 joins the hull.
// Where weights may be lost altogether the widening swallows it, rightly. The law result-class judges non-finite
// outputs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "properties/compare.hpp"
#include "properties/masks.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason hull_not_applicable(const Problem& p, const Contract&, const SubjectInfo&) {
  if (p.b * p.hq * p.lq * p.lk * p.dv == 0) return "no output elements";
  return std::nullopt;
}

// Least and largest attended value of each column of one row; NaN if one of them is not finite.
struct Hull {
  std::vector<double> lo, hi;

  Hull(const Inputs& inputs, const Masks& masks, Index b, Index h, Index i) {
    const attest_tensor v = inputs.v.view();
    const Index keys = v.shape[2], columns = v.shape[3], group = inputs.q.shape()[1] / v.shape[1];
    lo.assign(static_cast<std::size_t>(columns), std::numeric_limits<double>::infinity());
    hi.assign(lo.size(), -std::numeric_limits<double>::infinity());
    for (Index j = 0; j < keys; ++j) {
      if (masks.part(b, h, i, j) != Part::attended) continue;
      for (std::size_t c = 0; c < lo.size(); ++c) {
        const double x = load(v, b, h / group, j, static_cast<Index>(c));
        if (std::isfinite(x)) {
          lo[c] = std::min(lo[c], x);
          hi[c] = std::max(hi[c], x);
        } else {
          lo[c] = hi[c] = std::numeric_limits<double>::quiet_NaN();  // and stays so
        }
      }
    }
  }
};

Verdict check_hull(Trial& trial) {
  const Problem& p = trial.problem();
  const Result& base = trial.base();
  const Masks masks(trial.inputs(), trial.contract());
  const oracle::Rounding round = out_rounding(trial.contract(), base.out);
  Counts counts;
  for (const Index row : judged_rows(p)) {
    const auto [b, h, i] = row_index(p, row);
    const Hull hull(trial.inputs(), masks, b, h, i);
    for (Index c = 0; c < p.dv; ++c) {
      const double got = base.out.at(b, h, i, c);
      const auto column = static_cast<std::size_t>(c);
      if (hull.lo[column] <= got && got <= hull.hi[column]) {
        ++counts.judged;
        continue;
      }
      const oracle::Enclosure wide = trial.oracle().hull_enclosure(b, h, i, c);
      if (!std::isfinite(got) || wide.undetermined) {
        ++counts.undetermined;
        continue;
      }
      ++counts.judged;
      if (judge_element(wide, round, got) != oracle::Outcome::outside) continue;
      Evidence evidence = evidence_of(wide, round, got);
      evidence.tensor = "out";
      evidence.index = {b, h, i, c};
      // The nearest end of the hull is what a mean could have been at most.
      const double end = got < wide.hull_lo ? wide.hull_lo : wide.hull_hi;
      evidence.expected = round(end);
      const double room = got < wide.hull_lo ? end - wide.lo : wide.hi - end;
      evidence.ratio = room > 0 ? std::fabs(got - end) / room : std::numeric_limits<double>::infinity();
      evidence.note = "outside the hull of the values that the row attends to";
      return Verdict::fail(std::move(evidence), counts);
    }
  }
  return held(counts);
}

}  // namespace

Property hull() {
  return {"hull",
          "min v_j - r <= f(x) <= max v_j + r over the keys j of the row, r of docs/bounds.md section 4",
          "an output lies between the values that its row attends to, also where no enclosure judges it",
          Kind::bound,
          hull_not_applicable,
          check_hull,
          Asks::base_plan,
          Claim::hull};
}

}  // namespace attest::properties
