#include "certify/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attest::certify {
namespace {

// An arf_t that frees itself.
struct Number {
  Number() { arf_init(x); }
  ~Number() { arf_clear(x); }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;
  arf_t x;
};

double twice_rounded(const arf_t x, const Rounding& round) {
  Number stored;
  arf_set_d(stored.x, rounded(x, round.stage));
  return rounded(stored.x, round.tensor);
}

Judgement judge_number(const Enclosure& enclosure, const Rounding& round, double value) {
  if (enclosure.undetermined)
    return {Answer::falls, "the bound leaves this element undetermined: " + enclosure.undetermined.why};
  if (!enclosure.lo.is_finite() || !enclosure.hi.is_finite()) return {Answer::falls, "the interval is unbounded"};
  if (enclosure.zero_ok && value == 0)
    return {Answer::falls, "every score, or the sum of the weights, may overflow, and 0 is then permitted"};
  Rounding::Ends lo = round(enclosure.lo), hi = round(enclosure.hi);
  if (round.flush_to_zero) {  // a result that rounds to less than the smallest normal number may be 0
    const double tiny = std::max(smallest_normal(round.stage), smallest_normal(round.tensor));
    for (double* end : {&lo.least, &lo.most})
      if (*end > 0 && *end <= tiny) *end = 0;
    for (double* end : {&hi.least, &hi.most})
      if (*end < 0 && *end >= -tiny) *end = 0;
  }
  if (value < lo.least) return {Answer::stands, "every conforming result is larger"};
  if (value > hi.most) return {Answer::stands, "every conforming result is smaller"};
  if (value >= lo.most && value <= hi.least) return {Answer::falls, "a conforming result may be this"};
  return {Answer::undecided, "an end of the interval is too near to where its rounding changes"};
}

Judgement judge_nonfinite(const Enclosure& enclosure, const Rounding& round, double value) {
  if (enclosure.nonfinite) return {Answer::falls, "NaN and infinities are permitted here: " + enclosure.nonfinite.why};
  // A log-sum-exp may round to an infinity of its own tensor's type.
  if ((value == infinity && !(round(enclosure.hi).most < infinity)) ||
      (value == -infinity && !(round(enclosure.lo).least > -infinity)))
    return {Answer::falls, "the interval reaches past the largest finite number"};
  return {Answer::stands, "every conforming result is finite"};
}

}  // namespace

double rounded(const arf_t x, Format format) {
  if (arf_is_zero(x)) return 0;
  if (arf_is_nan(x)) return std::numeric_limits<double>::quiet_NaN();
  const double sign = arf_sgn(x);
  if (arf_cmpabs_2exp_si(x, 1100) > 0) return sign * infinity;
  if (arf_cmpabs_2exp_si(x, -1200) < 0) return 0;
  // |x| lies in [2^(e-1), 2^e); the last place that the format keeps there is 2^last.
  const slong e = fmpz_get_si(ARF_EXPREF(x));
  const slong last = std::max<slong>(e, min_exponent(format) + 1) - precision(format);
  if (e < last) return 0;
  Number y;
  if (e == last) {                                       // between half a smallest subnormal and a whole one
    if (arf_cmpabs_2exp_si(x, last - 1) == 0) return 0;  // a tie, and 0 is even
    arf_set_si_2exp_si(y.x, arf_sgn(x), last);
  } else {
    arf_set_round(y.x, x, e - last, ARF_RND_NEAR);
  }
  const double result = arf_get_d(y.x, ARF_RND_NEAR);
  return std::fabs(result) > largest_finite(format) ? sign * infinity : result;
}

Rounding::Ends Rounding::operator()(const Ball& x) const {
  if (!x.is_finite()) return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  Number least, most;
  arb_get_lbound_arf(least.x, x.get(), 2 * working_bits());
  arb_get_ubound_arf(most.x, x.get(), 2 * working_bits());
  return {twice_rounded(least.x, *this), twice_rounded(most.x, *this)};
}

Judgement judge(const Enclosure& enclosure, const Rounding& round, double value) {
  const bool nan = std::isnan(value), finite = std::isfinite(value);
  switch (enclosure.expect) {
    case Expect::nan:
      return nan ? Judgement{Answer::falls, "NaN is what it must be"}
                 : Judgement{Answer::stands, enclosure.empty_row ? "no key is open in this row, and it must be NaN"
                                                                 : "a NaN in q or k was lost"};
    case Expect::nonfinite:
      return finite ? Judgement{Answer::stands, "a NaN or an infinity in v was lost"}
                    : Judgement{Answer::falls, "an attended value is not finite"};
    case Expect::minus_infinity:
      if (value == -infinity) return {Answer::falls, "-inf is what it must be"};
      if (!finite && enclosure.nonfinite) return judge_nonfinite(enclosure, round, value);
      return {Answer::stands, "no key is open in this row, and its log-sum-exp must be -inf"};
    case Expect::number:
      break;
  }
  return finite ? judge_number(enclosure, round, value) : judge_nonfinite(enclosure, round, value);
}

}  // namespace attest::certify
