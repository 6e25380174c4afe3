#include "oracle/outcome.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attest::oracle {
namespace {

struct Edges {
  double lo, hi;
};

Edges rounded(const Enclosure& enclosure, const Rounding& round) noexcept {
  Edges edges{round.low(enclosure.lo), round.high(enclosure.hi)};
  if (round.flush_to_zero) {
    const double tiny = std::max(smallest_normal(round.stage), smallest_normal(round.tensor));
    if (edges.lo > 0 && edges.lo <= tiny) edges.lo = 0;
    if (edges.hi < 0 && edges.hi >= -tiny) edges.hi = 0;
  }
  return edges;
}

}  // namespace

Outcome judge_element(const Enclosure& enclosure, const Rounding& round, double got) noexcept {
  switch (enclosure.expect) {
    case Expect::nan:
      return std::isnan(got) ? Outcome::inside : Outcome::outside;
    case Expect::nonfinite:
      return std::isfinite(got) ? Outcome::outside : Outcome::inside;
    case Expect::number:
      break;
  }
  const bool exact = enclosure.lo == enclosure.hi;  // an empty row's log-sum-exp is -inf
  const Edges edges = rounded(enclosure, round);
  if (!std::isfinite(got) && !(exact && got == enclosure.lo)) {
    // A log-sum-exp may round to an infinity of its own tensor's type.
    const bool reached = std::isinf(got) && got >= edges.lo && got <= edges.hi;
    return enclosure.nonfinite_ok || reached ? Outcome::undetermined : Outcome::outside;
  }
  if (enclosure.undetermined) return Outcome::undetermined;
  if (got >= edges.lo && got <= edges.hi) return Outcome::inside;
  return enclosure.zero_ok && got == 0 ? Outcome::undetermined : Outcome::outside;
}

Evidence evidence_of(const Enclosure& enclosure, const Rounding& round, double got) {
  Evidence evidence;
  evidence.got = got;
  evidence.expected = round(enclosure.y);
  evidence.lo = enclosure.lo;
  evidence.hi = enclosure.hi;
  evidence.wrong = std::isnan(got) ? Wrong::nan : std::isinf(got) ? Wrong::infinity : Wrong::finite;
  const double room = got > enclosure.y ? enclosure.hi - enclosure.y : enclosure.y - enclosure.lo;
  evidence.ratio = std::isfinite(got) && room > 0 ? std::fabs(got - enclosure.y) / room : infinity;
  if (enclosure.expect == Expect::nonfinite)
    evidence.note = "a NaN or infinity in v was lost";
  else if (enclosure.expect == Expect::nan)
    evidence.note = enclosure.empty_row ? "no key is open in this row" : "a NaN in q or k was lost";
  else if (enclosure.empty_row)
    evidence.note = "no key is open in this row";
  return evidence;
}

}  // namespace attest::oracle
