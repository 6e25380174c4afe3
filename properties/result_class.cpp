// result-class: a NaN or an infinity comes out only where the contract or the enclosure permits one.
//
// Looks at every element of out and lse, rows that the policy bound does not sample included, and asks the oracle about those
// that are not finite: permitted are the contract's empty rows, what overflows in a declared format, and what non-finite
// inputs bring along (docs/bounds.md, section 5). Applies always. A finite number where a NaN is due is left to policy-bound.
#include <cmath>

#include "oracle/outcome.hpp"
#include "properties/compare.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Verdict check(Trial& trial) {
  const Result& base = trial.base();
  const Problem& p = trial.problem();
  const bool has_lse = base.lse.present();
  const attest_tensor out = base.out.view(), lse = base.lse.view();
  const oracle::Rounding out_round = out_rounding(trial.contract(), base.out);
  const oracle::Rounding lse_round = has_lse ? lse_rounding(trial.contract(), base.lse) : out_round;
  Counts counts;
  const auto wrong = [&](const char* tensor, std::array<Index, 4> index, const oracle::Rounding& round,
                         const oracle::Enclosure& enclosure, double got) -> std::optional<Evidence> {
    switch (judge_element(enclosure, round, got)) {
      case oracle::Outcome::inside:
        ++counts.judged;
        return std::nullopt;
      case oracle::Outcome::undetermined:
        ++counts.undetermined;
        return std::nullopt;
      case oracle::Outcome::outside:
        break;
    }
    ++counts.judged;
    Evidence evidence = evidence_of(enclosure, round, got);
    evidence.tensor = tensor;
    evidence.index = index;
    return evidence;
  };
  for (Index b = 0; b < p.b; ++b)
    for (Index h = 0; h < p.hq; ++h)
      for (Index i = 0; i < p.lq; ++i) {
        for (Index c = 0; c < p.dv; ++c) {
          const double got = load(out, b, h, i, c);
          if (std::isfinite(got))
            ++counts.judged;
          else if (auto evidence = wrong("out", {b, h, i, c}, out_round, trial.oracle().out_enclosure(b, h, i, c), got))
            return Verdict::fail(std::move(*evidence), counts);
        }
        if (!has_lse) continue;
        const double got = load(lse, b, h, i);
        if (std::isfinite(got))
          ++counts.judged;
        else if (auto evidence = wrong("lse", {b, h, i, 0}, lse_round, trial.oracle().lse_enclosure(b, h, i), got))
          return Verdict::fail(std::move(*evidence), counts);
      }
  return Verdict::pass(counts);
}

}  // namespace

Property result_class() {
  return {"result-class",
          "isfinite(out) wherever every conforming result is finite",
          "no NaN or infinity where the inputs and the declared formats cannot give one",
          Kind::guard,
          always,
          check};
}

}  // namespace attest::properties
