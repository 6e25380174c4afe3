#include "certify/score.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "certify/rounding.hpp"

namespace attest::certify {
namespace {

constexpr double least_absorbing = 100;  // nats

// Steps 1 to 4: operands, dot product, scale, the stored score.
// `off`: how far another choice of inputs may move s; `largest`: max|q| + max|k|.
Ball scaled_error(const Constants& c, const Ball& s, const Ball& s1, const Ball& off, const Ball& q1, const Ball& k1,
                  const Ball& largest) {
  if (c.sigma == 0) return 0;  // the scores are exactly 0
  Ball e = 0;
  if (c.operand_rounds || c.flush)
    e = compounded(2, c.u_operand) * s1 + c.eta_operand * c.mu * ((k1 + q1) * (1 + c.u_operand) + c.d * c.eta_operand);
  e += c.e_entering * s1 + c.eta_entering * (k1 + q1 + c.d * c.operand.eta);
  e += c.e_acc * (s1 + e) + c.eta_products * c.mu;
  if (c.qk_blocks) e += c.eta_aligned * c.mu * (largest + c.least_factor);
  e += c.relative_scale * (s1 + e) + c.folded_eta * (k1 + q1) + 2 * c.scale.eta * c.mu;
  e += off;
  e += c.score.u * (abs(s) + e) + c.score.eta * c.mu;
  return e;
}

// Tells whether the softcap's own format makes an infinity of the cap, or of a score that the cap does not bring to its
// end: beyond 20 caps tanh is 1 to the last bit of any format.
bool softcap_overflows(const Constants& c, const Score& score) {
  // A cap of 0 divides 0, and an infinite reciprocal makes no number of it either.
  if (may_reach(1, (Ball(c.softcap) - c.cap.eta) * c.cap.overflow * (1 - 2 * c.cap.u))) return true;
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
    const bool inverse_underflows = c.softcap * smallest_normal(c.cap.format) > 1;
    const Ball relative = compounded(4, c.cap.u) + (inverse_underflows ? c.cap.eta * cap : Ball(0));
    score.e = min(score.e + relative * (abs(score.z) + score.e) + flushed, 2 * cap);
    score.z = cap * tanh(score.z / cap);
  }
  const Ball ulps = c.how.tanh_ulp, u = c.cap.u;
  if (c.how.tanh == TanhError::absolute) {
    score.e += (4 * ulps + 2) * u * cap;
  } else {
    const Ball relative = (1 + 2 * ulps * u) * (1 + u) * (1 + u) - 1;
    score.e += relative * min(cap, abs(score.z) + score.e);
    score.e += 2 * ulps * half_smallest_subnormal(c.cap.format) * cap;  // an ulp where tanh is subnormal
  }
  score.e += 2 * flushed;
  score.e += c.score.u * (abs(score.z) + score.e);
  // The score's format may not hold a number that the softcap's holds.
  if (may_reach((abs(score.z) + score.e) * c.unit, c.score.overflow)) score.late = true;
}

// Step 6. The sum may overflow before it is rounded. A bias of 0 needs no conversion, but its sum is stored again.
void add_bias(const Constants& c, double bias, const Ball& s, Score& score) {
  if (!c.has_bias) return;
  const Ball magnitude = std::fabs(bias);
  if (may_reach((abs(s) + score.e + magnitude) * c.unit, c.score.overflow))
    (c.softcap_first ? score.late : score.early) = true;
  if (bias != 0 && c.bias_rounds) score.e += c.score.u * magnitude + c.score.eta;
  if (bias != 0 && c.with_log2_e) score.e += c.u_bias_unit * magnitude + c.score.eta;
  if (std::fabs(bias) < c.smallest_bias) score.e += magnitude;
  score.z += bias;
  score.e += c.score.u * (abs(score.z) + score.e) + c.score.eta;
}

// Returns how far x, rounded to the score's format or not, and then to softmax's or not, may lie from z. Clears
// `finite` if x overflows there.
Ball farthest(const Constants& c, const Ball& x, const Ball& z, bool& finite) {
  Ball most = abs(x - z);
  const auto round = [&](Format format, const Ball& from) {
    const Rounding::Ends ends = Rounding{format, format, false}(from);
    if (!(std::fabs(ends.least) < infinity && std::fabs(ends.most) < infinity)) {
      finite = false;
      return from;
    }
    most = max(most, max(abs(ends.least - z), abs(ends.most - z)));
    return ends.least == ends.most ? Ball(ends.least) : from;
  };
  for (const Ball& stored : {x, round(c.score.format, x)}) round(c.softmax.format, stored);
  return most;
}

// Takes the rounding error of the sum of the bias and `unbiased`, where the bias is so large that u_score |z| says
// nothing (the last step of section 1).
void take_sum_as_rounded(const Constants& c, double bias, const Score& unbiased, const Ball& own, Score& score) {
  const bool uncertain = may_reach(score.e, least_absorbing) || (score.overflows() && !unbiased.overflows());
  if (bias == 0 || !uncertain || c.exp2 || (c.softcap > 0 && !c.softcap_first)) return;
  bool finite = true;
  Ball error;
  const Ball reach = unbiased.e + c.float64_errors * own;
  for (const double m : {bias, c.bias_rounds ? round_to(c.score.format, bias) : bias})
    for (const Ball& end : {unbiased.z - reach, unbiased.z + reach})
      error = max(error, farthest(c, end + m, score.z, finite));
  if (!finite) return;
  // The oracle's sum is rounded to float64.
  error += c.float64_errors * 4 * min(0x1p-53 * abs(score.z), abs(unbiased.z));
  if (!score.overflows() && may_reach(error, score.e)) return;
  score.e = error;
  score.early = unbiased.early;
  score.late = false;
}

// Section 5: what a key's own products and factors can overflow in.
bool products_overflow(const Constants& c, const Vector& q, const Vector& k, const Ball& dot, const Ball& raw,
                       const Ball& raw_error) {
  if (may_reach(raw * (1 + c.e_acc_overflow), c.acc.overflow)) return true;
  if (may_reach(abs(dot) * c.overflow_mu + raw_error, c.raw_overflow)) return true;
  const Ball larger = max(q.largest, k.largest);
  if (c.operand_rounds && may_reach(larger * (c.folds ? c.overflow_mu : 1), c.operand.overflow)) return true;
  const auto overflows = [&c](const Vector& x, const Ball& factor, bool scaled) {
    const Ball largest = x.largest * (1 + c.u_operand);  // that format may have rounded it up
    return may_reach(largest * factor, c.largest_entering) ||
           (c.brought && scaled && may_reach(largest, c.scale.overflow));
  };
  return overflows(q, c.query_factor, c.scaled_queries) || overflows(k, c.key_factor, c.scaled_keys);
}

}  // namespace

Vector::Vector(const std::vector<double>& the_values) {
  for (const double x : the_values) {
    values.emplace_back(x);
    has_nan = has_nan || std::isnan(x);
    finite = finite && std::isfinite(x);
    if (!std::isfinite(x)) continue;
    largest = max(largest, std::fabs(x));
    sum_abs += std::fabs(x);
  }
}

Vector::Vector(const Intervals& tensor, Index b, Index h, Index i) {
  for (Index c = 0; c < tensor.shape[3]; ++c) {
    const Intervals::Element& x = tensor.at(b, h, i, c);
    finite = finite && x.known;
    values.push_back(x.centre);
    radii.push_back(x.radius);
    const Ball most = abs(x.centre) + x.radius;
    largest = max(largest, most);
    sum_abs += most;
  }
}

Score score_of(const Constants& c, const Vector& q, const Vector& k, double bias) {
  Ball dot, dot_abs, off;  // off: how far another choice of q and k may move the dot product
  for (std::size_t i = 0; i < q.values.size(); ++i) {
    const Ball product = q.values[i] * k.values[i];
    dot += product;
    if (q.radii.empty()) {
      dot_abs += abs(product);
    } else {
      const Ball q_most = abs(q.values[i]) + q.radii[i];
      dot_abs += q_most * (abs(k.values[i]) + k.radii[i]);
      off += q.radii[i] * abs(k.values[i]) + q_most * k.radii[i];
    }
  }
  const Ball s = dot * c.sigma, s1 = dot_abs * std::fabs(c.sigma), raw = dot_abs * c.overflow_mu;
  Score score;
  score.z = s;
  score.e = scaled_error(c, s, s1, off * std::fabs(c.sigma), q.sum_abs, k.sum_abs, q.largest + k.largest);
  score.raw = dot;
  score.raw_error = raw * c.e_acc_overflow + off * c.overflow_mu;
  score.early =
      products_overflow(c, q, k, dot, raw, score.raw_error) || may_reach((abs(s) + score.e) * c.unit, c.score.overflow);

  const bool cap_last = c.softcap > 0 && !c.softcap_first, excluded = bias == -infinity;
  if (c.softcap > 0 && c.softcap_first) apply_softcap(c, score, false);
  const Score unbiased = score;
  if (!excluded) add_bias(c, bias, s, score);
  if (cap_last) apply_softcap(c, score, excluded);

  // Step 7.
  score.e += c.softmax.u * (abs(score.z) + score.e);
  const Ball argument = cap_last && !excluded ? std::fabs(bias) : 0;
  score.e += c.float64_errors * 2 * (Ball(c.d) + 8) * 0x1p-53 * (s1 + abs(score.z) + abs(s) + argument);
  if (may_reach(abs(score.z) + score.e, c.softmax.overflow)) score.late = true;
  if (!excluded)
    take_sum_as_rounded(c, bias, unbiased, 2 * (Ball(c.d) + 8) * 0x1p-53 * (s1 + abs(s) + abs(unbiased.z)), score);
  if (c.exact_scores) score.e = 0;
  return score;
}

}  // namespace attest::certify
