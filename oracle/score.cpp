#include "oracle/score.hpp"

#include <limits>

#include "oracle/exp.hpp"

namespace attest::oracle {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// c tanh(s/c): converting s and c, the division, tanh itself, the product, the stored result.
void apply_softcap(const Numbers& n, Score& score) {
  const double c = n.softcap, s = score.z;
  // Its own format may make an infinity of the cap, or of a score that tanh does not bring to its end: beyond 20 caps it is 1 to
  // the last bit of any format.
  if (20 * c >= n.overflow_cap && (c >= n.overflow_cap || std::fabs(s) + score.e >= n.overflow_cap))
    score.early_overflow = true;
  score.e = std::min(score.e + 4 * n.u_cap * (std::fabs(s) + score.e) + n.eta_cap * (1 + c), 2 * c);
  if (s == -infinity) score.e = 0;  // tanh(-inf) is exactly -1
  score.z = c * tanh(fill(std::fabs(s) < infinity ? s / c : std::copysign(40.0, s)))[0];
  score.e += n.tanh_absolute > 0 ? n.tanh_absolute * c : n.tanh_relative * std::min(c, std::fabs(score.z) + score.e);
  score.e += 2 * n.eta_cap * (1 + c);
  score.e += n.u_score * (std::fabs(score.z) + score.e);
}

void add_bias(const Numbers& n, double bias, double s, Score& score) {
  if (bias == 0) return;
  if (bias == -infinity) {
    score.z = bias;
    return;
  }
  if ((std::fabs(s) + score.e + std::fabs(bias)) * n.unit >= n.overflow_score)
    (n.softcap_before_bias ? score.late_overflow : score.early_overflow) = true;
  if (n.u_bias > 0) score.e += n.u_bias * std::fabs(bias) + n.eta_score;
  if (n.u_bias_unit > 0) score.e += n.u_bias_unit * std::fabs(bias) + n.eta_score;
  score.z += bias;
  if (std::fabs(bias) < n.smallest_bias) score.e += std::fabs(bias);  // flushed as it is read
  score.e += n.u_score * (std::fabs(score.z) + score.e) + n.eta_score;
}

}  // namespace

Score score_of(const Numbers& n, const QueryNorms& query, const Dot& dot, double bias) {
  const double s = dot.qk * n.scale, s1 = dot.abs_qk * n.scale_magnitude;
  const double raw = dot.abs_qk * n.overflow_mu;
  Score score{s, 0, false, false, dot.qk, raw * n.e_acc_overflow};
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
    e += n.e_acc * (s1 + e) + n.underflows * n.eta_acc * n.mu;
    e += n.relative_scale * (s1 + e) + n.folded_eta * (dot.k_sum + query.sum_abs) + 2 * n.eta_scale * n.mu;
    e += n.u_score * (std::fabs(s) + e) + n.eta_score * n.mu;
  }
  if ((std::fabs(s) + e) * n.unit >= n.overflow_score) score.early_overflow = true;

  if (n.softcap > 0 && n.softcap_before_bias) apply_softcap(n, score);
  add_bias(n, bias, s, score);
  if (n.softcap > 0 && !n.softcap_before_bias) apply_softcap(n, score);

  e += n.u_softmax * (std::fabs(score.z) + e);
  // The reference's own error. Under a final softcap its bias enters too, through the argument of tanh.
  const double argument = n.softcap > 0 && !n.softcap_before_bias && bias > -infinity ? std::fabs(bias) : 0;
  e += 2 * (n.d + 8) * 0x1p-53 * (s1 + std::fabs(score.z) + std::fabs(s) + argument);
  if (!(e < 1e300)) e = 1e300;
  if (std::fabs(score.z) + e >= n.overflow_softmax) score.late_overflow = true;
  return score;
}

}  // namespace attest::oracle
