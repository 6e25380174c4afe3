#include "oracle/score.hpp"

#include <cmath>
#include <limits>

#include "oracle/exp.hpp"

namespace attest::oracle {
namespace {

// c tanh(s/c): converting s and c, the division, tanh itself, the product, the stored result.
void apply_softcap(const Numbers& n, Score& score) {
  const double c = n.softcap, s = score.z;
  // The softcap's own format may make an infinity of the cap, or of a score that tanh does not bring to its end: beyond
  // 20 caps it is 1 to the last bit of any format.
  if (20 * c >= n.overflow_cap && (c >= n.overflow_cap || std::fabs(s) + score.e >= n.overflow_cap))
    score.early_overflow = true;
  // It may be 0 there, and 0/0 is NaN; or its reciprocal infinite, and so is 0 times that.
  if ((c - n.eta_cap) * n.overflow_cap * (1 - 2 * n.u_cap) <= 1) score.early_overflow = true;
  const double inverse = c * n.smallest_cap > 1 ? n.eta_cap * c : 0;  // error of 1/c, where it is subnormal
  score.e = std::min(score.e + (n.e_cap + inverse) * (std::fabs(s) + score.e) + n.eta_cap * (1 + c), 2 * c);
  if (s == -infinity) score.e = 0;  // tanh(-inf) is exactly -1
  score.z = c * tanh(fill(std::fabs(s) < infinity ? s / c : std::copysign(40.0, s)))[0];
  score.e += n.tanh_absolute > 0 ? n.tanh_absolute * c : n.tanh_relative * std::min(c, std::fabs(score.z) + score.e);
  score.e += 2 * n.eta_cap * (1 + c) + n.tanh_underflow * c;
  score.e += n.u_score * (std::fabs(score.z) + score.e);
  // The score's format may not hold a number that the softcap's holds.
  if ((std::fabs(score.z) + score.e) * n.unit >= n.overflow_score) score.late_overflow = true;
}

// A bias of 0 needs no conversion, but its sum is stored again.
void add_bias(const Numbers& n, double bias, double s, Score& score) {
  if (!n.has_bias) return;
  if (bias == -infinity) {
    score.z = bias;
    return;
  }
  if ((std::fabs(s) + score.e + std::fabs(bias)) * n.unit >= n.overflow_score)
    (n.softcap_before_bias ? score.late_overflow : score.early_overflow) = true;
  if (bias != 0 && n.u_bias > 0) score.e += n.u_bias * std::fabs(bias) + n.eta_score;
  if (bias != 0 && n.u_bias_unit > 0) score.e += n.u_bias_unit * std::fabs(bias) + n.eta_score;
  score.z += bias;
  if (std::fabs(bias) < n.smallest_bias) score.e += std::fabs(bias);  // flushed as it is read
  score.e += n.u_score * (std::fabs(score.z) + score.e) + n.eta_score;
}

// The exact sum of two numbers: `head` is it rounded.
struct Sum {
  double head, tail;
};
Sum exact_sum(double a, double b) {
  const double head = a + b, of_b = head - a;
  return {head, (a - (head - of_b)) + (b - of_b)};
}

// Returns how far x, rounded to the score's format or not, and then to softmax's or not, may lie from z. Infinite if x
// overflows.
double farthest(const Numbers& n, const Sum& x, double z) {
  if (!(std::fabs(x.head) < infinity)) return infinity;
  double most = std::fabs(x.head - z) + std::fabs(x.tail);
  const auto round = [&](Format format, double from) {
    double to = round_to(format, from);
    most = std::max(most, std::fabs(to - z));
    if (x.tail == 0 || format == Format::f64) return to;  // else the head may be a tie, and x is none
    to = round_to(format, std::nextafter(from, std::copysign(infinity, x.tail)));
    most = std::max(most, std::fabs(to - z));
    return to;
  };
  for (const double stored : {x.head, round(n.score_format, x.head)}) round(n.softmax_format, stored);
  return most;
}

// Returns the rounding error of the sum of bias and s, which is off by e_s, for a bias so large that u_score |z| says
// nothing (section 1). Infinite if a computed score may be.
double error_of_sum(const Numbers& n, double s, double e_s, double bias) {
  const double z = s + bias;
  double most = 0;
  for (const double m : {bias, n.u_bias > 0 ? round_to(n.score_format, bias) : bias})
    for (const double end : {s - e_s, s + e_s}) most = std::max(most, farthest(n, exact_sum(end, m), z));
  most += 2 * std::fabs(exact_sum(s, bias).tail);  // for z, which is rounded itself
  return most < infinity ? most : infinity;        // NaN where the bias is
}

Score rounded_score(const Numbers& n, const QueryNorms& query, const Dot& dot, double bias, ScoreBound bounded) {
  const double s = dot.qk * n.scale, s1 = dot.abs_qk * n.scale_magnitude;
  const double raw = dot.abs_qk * n.overflow_mu;
  Score score{s, 0, false, false, dot.qk, raw * n.e_acc_overflow + dot.off * n.overflow_mu};
  double& e = score.e;

  score.early_overflow = raw * (1 + n.e_acc_overflow) >= n.overflow_acc ||
                         std::fabs(dot.qk) * n.overflow_mu + score.raw_error >= n.raw_overflow;
  if (n.operand_rounds &&
      (query.max_abs * n.operand_mu >= n.overflow_operand || dot.k_max * n.operand_mu >= n.overflow_operand))
    score.early_overflow = true;
  if (query.max_abs >= n.query_overflow || dot.k_max >= n.key_overflow) score.early_overflow = true;

  if (n.scale != 0) {
    if (n.operand_flushes)
      e = n.e_operand * s1 +
          n.eta_operand * n.mu * ((dot.k_sum + query.sum_abs) * (1 + n.u_operand) + n.d * n.eta_operand);
    e += n.e_entering * s1 + n.eta_entering * (dot.k_sum + query.sum_abs + n.d * n.eta_of_entering);
    e += n.e_acc * (s1 + e) + n.eta_products * n.mu;
    if (n.eta_aligned > 0) e += n.eta_aligned * n.mu * (query.max_abs + dot.k_max + n.smallest_factor);
    e += n.relative_scale * (s1 + e) + n.folded_eta * (dot.k_sum + query.sum_abs) + 2 * n.eta_scale * n.mu;
    e += dot.off * n.scale_magnitude;  // every later step is counted from |s| + e, or moves two scores no further apart
    e += n.u_score * (std::fabs(s) + e) + n.eta_score * n.mu;
  }
  if ((std::fabs(s) + e) * n.unit >= n.overflow_score) score.early_overflow = true;

  if (n.softcap > 0 && n.softcap_before_bias) apply_softcap(n, score);
  const Score unbiased = score;
  add_bias(n, bias, s, score);
  if (n.softcap > 0 && !n.softcap_before_bias) apply_softcap(n, score);

  e += n.u_softmax * (std::fabs(score.z) + e);
  // The reference's own error. Under a final softcap its bias enters too, through the argument of tanh.
  const double argument = n.softcap > 0 && !n.softcap_before_bias && bias > -infinity ? std::fabs(bias) : 0;
  e += 2 * (n.d + 8) * 0x1p-53 * (s1 + std::fabs(score.z) + std::fabs(s) + argument);
  if (!(e < 1e300)) e = 1e300;
  if (std::fabs(score.z) + e >= n.overflow_softmax) score.late_overflow = true;
  const bool uncertain = e >= least_absorbing || (score.overflow() && !unbiased.early_overflow);
  const bool judged_by_sum = bounded == ScoreBound::least && bias != 0 && uncertain && !n.exp2 &&
                             (n.softcap == 0 || n.softcap_before_bias) && n.rounding == RoundingMode::nearest;
  if (!judged_by_sum) return score;
  const double own = 2 * (n.d + 8) * 0x1p-53 * (s1 + std::fabs(s) + std::fabs(unbiased.z));
  const double of_sum = error_of_sum(n, unbiased.z, unbiased.e + own, bias);
  if (of_sum < e || (score.overflow() && of_sum < infinity)) {
    e = of_sum;
    score.early_overflow = unbiased.early_overflow;
    score.late_overflow = false;
  }
  return score;
}

}  // namespace

Score score_of(const Numbers& n, const QueryNorms& query, const Dot& dot, double bias, ScoreBound bounded) {
  Score score = rounded_score(n, query, dot, bias, bounded);
  if (n.exact_scores) score.e = 0;
  return score;
}

}  // namespace attest::oracle
