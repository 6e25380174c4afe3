// scale-moved: q sigma with scale 1 in place of q with scale sigma, sigma q rounded to storage.
//
// Rounding makes it a problem of its own, with its own enclosure: RN(lo') <= f(x') <= RN(hi'). Together with the
// policy bound of the problem itself this binds both placements of one scale (where sigma is a power of two,
// scale-power is exact). Applies where the subject takes a scale and sigma q does not overflow. Catches kernels that
// put the scale elsewhere.
#include <cmath>

#include <fmt/format.h>

#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

Reason scale_moved_not_applicable(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (info.supports.scale == Supports::Scale::only_default) return "the subject takes the default scale alone";
  if (p.effective_scale() == 1) return "the scale is 1";
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  return std::nullopt;
}

Verdict check_scale_moved(Trial& trial) {
  const double scale = trial.inputs().scale;
  Problem moved = trial.problem();
  moved.scale = 1;
  Inputs inputs = trial.inputs().clone();
  inputs.scale = 1;
  inputs.scale_is_default = false;
  bool overflows = false;
  for_each_stored(inputs.q, [&](Index b, Index h, Index i, Index c) {
    const double x = inputs.q.at(b, h, i, c) * scale;
    overflows = overflows || std::fabs(x) >= overflow_threshold(moved.dtype);
    inputs.q.set(b, h, i, c, x);
  });
  if (overflows) return Verdict::skip("q times the scale overflows");
  trial.base();
  const Result result = trial.run(inputs, moved);
  if (result.violation) return Verdict::fail(*result.violation);
  Verdict verdict = oracle::make_oracle(trial.contract(), moved, inputs)->judge(result.out, result.lse);
  if (verdict.evidence) verdict.evidence->note = fmt::format("with the scale {:.9g} folded into q, and scale 1", scale);
  return verdict;
}

}  // namespace

Property scale_moved() {
  return {"scale-moved",
          "RN(lo') <= f(sigma q, scale 1) <= RN(hi')",
          "with the scale folded into the values of q the result stays within the enclosure of that problem",
          Kind::bound,
          scale_moved_not_applicable,
          check_scale_moved};
}

}  // namespace attest::properties
