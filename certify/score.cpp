#include "certify/score.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace attest::certify {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Steps 1 to 4: operands, dot product, scale, the stored score.
Ball scaled_error(const Constants& c, const Ball& s, const Ball& s1, const Ball& q1, const Ball& k1) {
  if (c.sigma == 0) return 0;  // the scores are exactly 0
  Ball e = 0;
  if (c.operand_rounds || c.flush)
    e = compounded(2, c.u_operand) * s1 + c.eta_operand * c.mu * ((k1 + q1) * (1 + c.u_operand) + c.d * c.eta_operand);
  e += c.e_acc * (s1 + e) + (c.flush ? 2 : 1) * Ball(c.d) * c.acc.eta * c.mu;
  e += c.relative_scale * (s1 + e) + c.folded_eta * (k1 + q1) + 2 * c.scale.eta * c.mu;
  e += c.score.u * (abs(s) + e) + c.score.eta * c.mu;
  return e;
}

// Whether the softcap's own format makes an infinity of the cap, or of a score that the cap does not bring to its end: beyond 20
// caps tanh is 1 to the last bit of any format.
bool softcap_overflows(const Constants& c, const Score& score) {
  return may_reach(20 * Ball(c.softcap), c.cap.overflow) &&
         (may_reach(c.softcap, c.cap.overflow) || may_reach(abs(score.z) + score.e, c.cap.overflow));
}

// Step 5: converting s, dividing by a rounded cap, tanh, the product with the cap, storing it.
void apply_softcap(const Constants& c, Score& score, bool minus_infinity) {
  const Ball cap = c.softcap, flushed = c.cap.eta * (1 + cap);
  if (minus_infinity) {  // tanh(-inf) is exactly -1
    score.z = -cap;
    score.e = 0;
  } else {
    if (softcap_overflows(c, score)) score.early = true;
    score.e = min(score.e + 4 * c.cap.u * (abs(score.z) + score.e) + flushed, 2 * cap);
    score.z = cap * tanh(score.z / cap);
  }
  if (c.how.tanh == TanhError::absolute)
    score.e += (4 * Ball(c.how.tanh_ulp) + 2) * c.cap.u * cap;
  else
    score.e += (2 * Ball(c.how.tanh_ulp) + 2) * c.cap.u * min(cap, abs(score.z) + score.e);
  score.e += 2 * flushed;
  score.e += c.score.u * (abs(score.z) + score.e);
}

// Step 6. The sum may overflow before it is rounded.
void add_bias(const Constants& c, double bias, const Ball& s, Score& score) {
  if (bias == 0) return;
  const Ball magnitude = std::fabs(bias);
  if (may_reach((abs(s) + score.e + magnitude) * c.unit, c.score.overflow))
    (c.softcap_first ? score.late : score.early) = true;
  if (c.bias_rounds) score.e += c.score.u * magnitude + c.score.eta;
  if (c.exp2 && c.folds) score.e += (c.score.u + c.scale.u) * magnitude + c.score.eta;
  if (std::fabs(bias) < c.smallest_bias) score.e += magnitude;
  score.z += bias;
  score.e += c.score.u * (abs(score.z) + score.e) + c.score.eta;
}

// Section 5: what a key's own products and factors can overflow in.
bool products_overflow(const Constants& c, const Vector& q, const Vector& k, const Ball& dot, const Ball& raw) {
  if (may_reach(raw * (1 + c.e_acc_overflow), c.acc.overflow)) return true;
  if (may_reach(abs(dot) * c.overflow_mu + raw * c.e_acc_overflow, c.raw_overflow)) return true;
  const Ball larger = std::max(q.largest, k.largest);
  if (c.operand_rounds && may_reach(larger * (c.folds ? c.overflow_mu : 1), c.operand.overflow)) return true;
  return may_reach(q.largest * c.query_factor, c.largest_factor) ||
         may_reach(k.largest * c.key_factor, c.largest_factor);
}

}  // namespace

Vector::Vector(std::vector<double> the_values) : values(std::move(the_values)) {
  for (const double x : values) {
    has_nan = has_nan || std::isnan(x);
    finite = finite && std::isfinite(x);
    if (!std::isfinite(x)) continue;
    largest = std::max(largest, std::fabs(x));
    sum_abs += std::fabs(x);
  }
}

Score score_of(const Constants& c, const Vector& q, const Vector& k, double bias) {
  Ball dot, dot_abs;
  for (std::size_t i = 0; i < q.values.size(); ++i) {
    const Ball product = Ball(q.values[i]) * k.values[i];
    dot += product;
    dot_abs += abs(product);
  }
  const Ball s = dot * c.sigma, s1 = dot_abs * std::fabs(c.sigma), raw = dot_abs * c.overflow_mu;
  Score score;
  score.z = s;
  score.e = scaled_error(c, s, s1, q.sum_abs, k.sum_abs);
  score.raw = dot;
  score.raw_error = raw * c.e_acc_overflow;
  score.early = products_overflow(c, q, k, dot, raw) || may_reach((abs(s) + score.e) * c.unit, c.score.overflow);

  const bool cap_last = c.softcap > 0 && !c.softcap_first, excluded = bias == -infinity;
  if (c.softcap > 0 && c.softcap_first) apply_softcap(c, score, false);
  if (!excluded) add_bias(c, bias, s, score);
  if (cap_last) apply_softcap(c, score, excluded);

  // Step 7.
  score.e += c.softmax.u * (abs(score.z) + score.e);
  const Ball argument = cap_last && !excluded ? std::fabs(bias) : 0;
  score.e += c.float64_errors * 2 * (Ball(c.d) + 8) * 0x1p-53 * (s1 + abs(score.z) + abs(s) + argument);
  if (may_reach(abs(score.z) + score.e, c.softmax.overflow)) score.late = true;
  return score;
}

}  // namespace attest::certify
