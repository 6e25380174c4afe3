#include "ops/exchange.hpp"

#include <algorithm>

namespace attest::ops {

Permitted permitted_by(const oracle::Enclosure& e, const oracle::Rounding& round, std::string_view tensor,
                       const std::array<Index, 4>& index, std::span<const double> besides) {
  Permitted p;
  p.tensor = tensor;
  p.index = index;
  p.y = e.y;
  p.lo = round(e.lo);
  p.hi = round(e.hi);
  const auto also = [&p](double x) { p.lo = std::min(p.lo, x), p.hi = std::max(p.hi, x); };
  for (const double x : besides) also(x);
  if (e.zero_ok) also(0);
  const double tiny = round.flush_to_zero ? smallest_normal(round.stage) : 0;
  if (p.lo > 0 && p.lo <= tiny) p.lo = 0;
  if (p.hi < 0 && p.hi >= -tiny) p.hi = 0;
  p.number = e.expect == oracle::Expect::number;
  p.nonfinite = e.nonfinite_ok || !p.number;
  p.undetermined = e.undetermined;
  p.wide = oracle::is_wide(e);
  return p;
}

void put(Permitted& p, double got, oracle::Outcome outcome, const oracle::Enclosure& e, const oracle::Rounding& round) {
  p.outcome = outcome;
  if (outcome != oracle::Outcome::outside) return;
  p.evidence = oracle::evidence_of(e, round, got);
  p.evidence->tensor = p.tensor;
  p.evidence->index = p.index;
}

}  // namespace attest::ops
