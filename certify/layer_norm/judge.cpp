#include "certify/layer_norm/judge.hpp"

#include <algorithm>
#include <cmath>

namespace attest::certify::layer_norm {

Judgement judge(const Interval& interval, const Rounding& round, double value) {
  if (interval.nan)
    return std::isnan(value) ? Judgement{Answer::falls, "NaN is what it must be"}
                             : Judgement{Answer::stands, "a NaN among its inputs was lost"};
  if (std::isfinite(value))
    for (const double other : interval.others)
      if (value == round(Ball(other)).least) return {Answer::falls, "the variance may overflow, and beta is then left"};
  // The rule for an element is that of attention.
  Enclosure enclosure;
  enclosure.lo = interval.lo;
  enclosure.hi = interval.hi;
  if (interval.nonfinite) enclosure.nonfinite.give(interval.nonfinite->c_str());
  if (interval.undetermined) enclosure.undetermined.give(interval.undetermined->c_str());
  return certify::judge(enclosure, round, value);
}

}  // namespace attest::certify::layer_norm
