#include "oracle/numbers.hpp"

#include <atomic>
#include <cstring>
#include <optional>
#include <type_traits>

namespace attest::oracle {
namespace {

// The errors of one rounding mode.
struct Errors {
  RoundingMode mode;
  [[nodiscard]] double times() const { return mode == RoundingMode::directed ? 2 : 1; }
  [[nodiscard]] double u(Format format) const { return times() * unit_roundoff(format); }
  [[nodiscard]] double eta(Format format) const { return times() * half_smallest_subnormal(format); }
  [[nodiscard]] double eta(Format format, bool flush) const { return flush ? smallest_normal(format) : eta(format); }
  // Absolute error of an accumulator: truncation loses whole steps among subnormals, too.
  [[nodiscard]] double truncated_eta(Format format, const Arithmetic& how) const {
    return std::max(eta(format, how.flush_to_zero), how.kappa * eta(format));
  }
  [[nodiscard]] double overflow(Format format) const {
    return mode == RoundingMode::directed ? largest_finite(format) : overflow_threshold(format);
  }
};

// The most roundings to the scale's format that one score meets (docs/bounds.md, section 1, step 3).
int roundings_of_scale(const Arithmetic& how, const Policy& policy, bool takes_root) {
  const Format scaling = policy[Stage::scale];
  const int entering = narrower(scaling, policy[Stage::storage]) ? 1 : 0;  // q or k, on being brought to it
  const int power =
      how.exp2 && narrower(scaling, policy[Stage::softmax]) ? 2 : 0;  // log2 e, and its product with the scale
  return std::max(4, (takes_root ? 5 + 2 * entering : 2 + entering) + power);
}

}  // namespace

const Numbers& Numbers::of_contract(const Contract& contract, RoundingMode rounding) {
  struct Last {
    Contract contract;
    Numbers numbers;
  };
  static thread_local std::optional<Last> last;
  // The numbers depend on these parts of the contract alone.
  static_assert(std::has_unique_object_representations_v<Policy>);
  if (!last || last->numbers.rounding != rounding ||
      std::memcmp(&last->contract.policy, &contract.policy, sizeof(Policy)) != 0 ||
      last->contract.softcap_before_bias != contract.softcap_before_bias ||
      !(last->contract.arithmetic == contract.arithmetic))
    last.emplace(Last{contract, Numbers(contract, rounding)});
  return last->numbers;
}

Numbers::Numbers(const Contract& contract, Index dimension, double sigma, double cap, RoundingMode rounding_mode)
    : Numbers(of_contract(contract, rounding_mode), contract, dimension, sigma, cap) {}

Numbers::Numbers(const Numbers& kept, const Contract& contract, Index dimension, double sigma, double cap)
    : ScoreNumbers(kept),
      WeightNumbers(kept),
      OutputNumbers(kept),
      arithmetic(kept.arithmetic),
      d(static_cast<double>(dimension)),
      scale(sigma),
      scale_magnitude(std::fabs(sigma)),
      mu(std::max(1.0, scale_magnitude)),
      softcap(cap) {
  const bool folds_root = arithmetic.fold_sqrt && sigma > 0;
  const double of_scale = folds_root ? e_root : e_scale;
  // Underflow of the scale, or of its product, where that is subnormal: relative to the scale.
  const double underflow = scale_magnitude > 0 ? std::max(eta_scale, exp2 ? eta_softmax : 0.0) / scale_magnitude : 0;
  relative_scale = scale_magnitude > 0 ? of_scale + underflow : 0;
  const Policy& policy = contract.policy;
  const Format storage = policy[Stage::storage], operand = policy[Stage::operand], scaling = policy[Stage::scale];
  const bool scaled_queries = arithmetic.fold_q || folds_root, scaled_keys = arithmetic.fold_k || folds_root;
  const bool folds = scaled_queries || scaled_keys;
  const int operand_bits = std::min(precision(operand), precision(storage));
  const int scaled_bits = narrower(operand, storage) ? operand_bits : std::max(operand_bits, precision(scaling));
  eta_products = (flush ? 2 : 1) * d * eta_acc;
  e_acc = sums_linearly() ? d * u_acc * (1 + u_acc) : compounded(d, u_acc);
  if (arithmetic.mma) {
    const int bits = (scaled_queries ? scaled_bits : operand_bits) + (scaled_keys ? scaled_bits : operand_bits);
    const BlockSums sums(*arithmetic.mma, policy[Stage::qk], bits - 2, u_acc, !arithmetic.mma->only);
    if (sums.any()) {
      const double blocks = std::ceil(d / static_cast<double>(arithmetic.mma->block)), loss = sums.relative(d, blocks);
      e_acc = growth(loss * (1 + u_acc));
      eta_products = (flush ? eta_products : 0) + loss * sums.smallest;
      smallest_factor =
          std::max({smallest_normal(operand), smallest_normal(storage), folds ? smallest_normal(scaling) : 0});
      eta_aligned = sums.aligned(d, blocks, smallest_factor);
    }
  }
  eta_products *= 1 + e_acc;
  // A q or k that carries the scale may underflow as a product, and before that on being brought to the scale's format.
  const bool brought = loses(scaling, storage);
  folded_eta = folds ? eta_scale * (std::sqrt(mu) + (brought ? mu : 0)) : 0;
  // A kernel that may fold, but cannot since this scale has no root, multiplies the score by both; so does one that
  // folds into the score.
  unit = arithmetic.folds_log2_e() ? 1.4427 : 1;
  u_bias_unit = unit > 1 ? u_brought : 0;
  if (folds && eta_of_entering > 0) {
    // A power of two leaves the significand as it is; so does its root, if that is one.
    const bool exact = !exp2 && is_power_of_two(scale_magnitude) && (!folds_root || is_power_of_two(std::sqrt(sigma)));
    e_entering = compounded(folds_root ? 2 : 1, exact ? 0 : u_entering);
    eta_entering = eta_of_entering * (mu > 1 ? std::sqrt(mu) : 1) * (1 + u_entering);
  }
  const double factor = scale_magnitude * unit;
  overflow_mu = std::max(1.0, factor);
  e_acc_overflow = (1 + e_acc) * (1 + of_scale) * (1 + e_operand) * (1 + e_entering) - 1;
  operand_mu = folds ? overflow_mu : 1;
  const double root = folds_root ? std::sqrt(factor) : 0;
  // A narrower operand may have rounded q and k up before; where its range is wider too, past that of the scale's
  // format.
  const double before = 1 + u_operand;
  query_overflow = entering_overflow / before / std::max(arithmetic.fold_q ? factor : 0, root);
  key_overflow = entering_overflow / before / std::max(arithmetic.fold_k ? factor : 0, root);
  if (brought || u_operand > 0) {
    if (scaled_queries) query_overflow = std::min(query_overflow, overflow_scale / before);
    if (scaled_keys) key_overflow = std::min(key_overflow, overflow_scale / before);
  }
  raw_overflow = std::min(overflow_score, overflow_scale);
  if (exp2) raw_overflow = std::min(raw_overflow, overflow_softmax);
  // A scale that its format cannot hold is infinite before it meets any score, and 0 times it NaN.
  if (scale_magnitude * (exp2 ? 1.4427 : 1) >= scaled_overflow) raw_overflow = 0;
}

Numbers::Numbers(const Contract& contract, RoundingMode rounding_mode) : arithmetic(contract.arithmetic) {
  static std::atomic<std::uint64_t> contracts = 0;
  contract_number = ++contracts;
  softcap_before_bias = contract.softcap_before_bias;
  rounding = rounding_mode;
  const Errors of{rounding};
  const Policy& policy = contract.policy;
  const Format storage = policy[Stage::storage], operand = policy[Stage::operand], acc = policy[Stage::qk],
               score = policy[Stage::score], scaling = policy[Stage::scale], capping = policy[Stage::softcap],
               softmax = policy[Stage::softmax], weights = policy[Stage::weights], pv = policy[Stage::pv],
               partial = policy[Stage::partial];
  output = policy[Stage::output];
  flush = arithmetic.flush_to_zero;
  kappa = arithmetic.kappa;
  exp2 = arithmetic.exp2;
  merges = arithmetic.lse_merge != LseMerge::none;
  lazy = contract.lazy_nats();
  exp_lazy = std::exp(lazy);

  operand_rounds = loses(operand, storage);
  operand_flushes = operand_rounds || flush;
  // Tensor cores ignore the bits that tf32 has not.
  operand_cut = arithmetic.mma && operand == Format::tf32;
  const double u_entered_once = (operand_cut ? 2 : 1) * of.u(operand);
  const double eta_entered_once = (operand_cut && !flush ? 2 : 1) * of.eta(operand, flush);
  u_operand = narrower(operand, storage) ? u_entered_once : 0;
  // Inputs may be flushed as they are read, in their own format.
  eta_operand = flush ? std::max(smallest_normal(operand), smallest_normal(storage)) : eta_entered_once;
  overflow_operand = of.overflow(operand);
  eta_acc = of.truncated_eta(acc, arithmetic);
  overflow_acc = of.overflow(acc);
  score_format = score;
  softmax_format = softmax;
  u_score = of.u(score);
  eta_score = of.eta(score, flush);
  overflow_score = of.overflow(score);
  eta_scale = of.eta(scaling, flush);
  u_cap = of.u(capping);
  e_cap = compounded(4, u_cap);
  eta_cap = of.eta(capping, flush);
  overflow_cap = of.overflow(capping);
  const bool absolute = arithmetic.tanh == TanhError::absolute;
  tanh_relative = (1 + 2 * arithmetic.tanh_ulp * u_cap) * (1 + u_cap) * (1 + u_cap) - 1;
  tanh_absolute = absolute ? (4 * arithmetic.tanh_ulp + 2) * u_cap : 0;
  tanh_underflow = absolute ? 0 : 2 * arithmetic.tanh_ulp * of.eta(capping);
  smallest_cap = smallest_normal(capping);

  u_softmax = of.u(softmax);
  eta_softmax = of.eta(softmax, flush);
  overflow_softmax = of.overflow(softmax);
  log_overflow_softmax = 0.6931471805599453 * std::ilogb(overflow_softmax);
  a1 = exp2 ? 2 : 0;
  a2 = exp2 ? 2 : 0;
  a3 = exp2 ? 5 : 2;
  if (arithmetic.lse_merge == LseMerge::flat) a2 += 3;
  // chain: 3 for every merge is added per row, where the number of splits is known.
  // A relative error is that of the function; its result is rounded once more.
  c_exp = arithmetic.exp_rel ? *arithmetic.exp_rel + u_softmax * (1 + *arithmetic.exp_rel)
                             : 2 * arithmetic.exp_ulp * u_softmax;
  ln_exp = -std::log1p(-c_exp);
  exp_of_nothing = !arithmetic.exp_rel && arithmetic.exp_ulp >= 1;
  near = softmax == Format::f64 ? 760 : 120;

  u_acc = kappa * of.u(acc);
  u_scale = of.u(scaling);
  e_operand = compounded(2, u_operand);
  e_scale = compounded(roundings_of_scale(arithmetic, policy, false), u_scale);
  e_root = compounded(roundings_of_scale(arithmetic, policy, true), u_scale);
  overflow_scale = of.overflow(scaling);
  // With exp2 it may meet differences of unscaled scores in the softmax format.
  scaled_overflow = std::min(overflow_scale, exp2 ? overflow_softmax : overflow_scale) / (1 + compounded(2, u_scale));
  // A narrower operand rounds any q and k: that is counted already.
  const bool entering_loses = loses(operand, scaling) && !narrower(operand, storage);
  u_entering = entering_loses && narrower(operand, scaling) ? u_entered_once : 0;
  eta_of_entering = entering_loses ? eta_entered_once : 0;
  entering_overflow = std::min(overflow_scale, overflow_operand) / (1 + compounded(4, u_scale));
  const int weight_bits = std::min(precision(weights), precision(operand));
  const int value_bits = std::min(precision(operand), precision(storage));
  if (arithmetic.mma) {
    pv_sums = BlockSums(*arithmetic.mma, pv, weight_bits + value_bits - 2, of.u(pv), !arithmetic.mma->only);
    weight_sums = BlockSums(*arithmetic.mma, softmax, weight_bits - 1, of.u(softmax), true);
  }
  smallest_weight_factor = std::max({smallest_normal(weights), smallest_normal(operand), smallest_normal(storage)});

  // The weights are rounded to their own format and then to the operand's: once, if those are the same.
  const bool narrow_weights = loses(weights, softmax), enter_rounded = loses(operand, weights) || u_operand > 0;
  u_weights = (narrower(weights, softmax) ? of.u(weights) : 0) +
              std::max(u_operand, narrower(operand, weights) ? u_entered_once : 0);
  weights_round = narrow_weights || enter_rounded;
  per_unit_weight = narrow_weights && enter_rounded ? 3 : 1;
  eta_weights = (narrow_weights || flush ? of.eta(weights, flush) : 0) + (enter_rounded ? eta_entered_once : 0);
  log_overflow_weights = std::log(std::min(of.overflow(weights), of.overflow(operand)));
  u_pv = kappa * of.u(pv);
  u_sum = kappa > 1 ? -std::log1p(-kappa * u_softmax) : u_softmax;  // to nearest, a result is at least x / (1 + u)
  eta_pv = of.truncated_eta(pv, arithmetic);
  overflow_pv = of.overflow(pv);
  pv_narrower = loses(pv, softmax);
  u_final = std::max(of.u(pv), u_softmax);
  c_div = 2 * arithmetic.div_ulp;
  u_partial = merges ? of.u(partial) : 0;
  eta_partial = of.eta(partial, flush);
  overflow_partial = of.overflow(partial);
  // out lies in memory in q's format: what the output stage rounds up may be infinite there.
  overflow_out = output == storage ? of.overflow(output)
                                   : std::min(of.overflow(output), of.overflow(storage) / (1 + of.u(output)));
  // Absolute error of a tiny exp: f16 keeps subnormals, where an ulp is twice eta; the other formats may flush them.
  const bool keeps_subnormals = has_short_range(softmax) && !flush;
  eps0 =
      1.01 * (keeps_subnormals ? 2 * std::max(arithmetic.exp_ulp, 0.75) * of.eta(softmax) : smallest_normal(softmax));
  eps_lazy = eps0 * exp_lazy;
  lifted = 1.01 * (arithmetic.exp_rel ? 1 : 2 * std::max(arithmetic.exp_ulp, 0.75)) * (of.eta(softmax) * 0x1p+200);
  eps1 = std::max(eps_lazy, pv_narrower ? eta_pv * exp_lazy : 0);
  eta_final = pv_narrower ? eta_pv : eta_softmax;

  // Error of a bias that is brought to the unit of log2 e, and of that factor of the scale, unless e_scale has it: it
  // moves a score by no more than so much of the bias and of their sum.
  u_brought = u_score + (narrower(scaling, softmax) ? 1 : 3) * u_scale;
}

double Numbers::rescalings(double n, double lk, double records) const {
  const auto tile = static_cast<double>(arithmetic.kv_tile_min);
  double r = std::min(n, tile > 1 ? std::ceil(lk / tile) : lk) - 1;
  r = std::min(r, records - 1);
  if (arithmetic.lse_merge == LseMerge::chain) r = std::min(r + splits(n) - 1, n);
  return r;
}

double Numbers::merged_a2(double n) const {
  return a2 + (arithmetic.lse_merge == LseMerge::chain ? 3 * (splits(n) - 1) : 0);
}

double Numbers::with_merges(double t, double n, double z_top) const {
  if (arithmetic.lse_merge == LseMerge::chain)
    t += splits(n) * (2 * u_pv + 2 * u_final * c_div + 3 * u_softmax + u_partial);
  if (merges && arithmetic.merge_weights == MergeWeights::lse) {
    const double ln_n = std::log(n), merging = merges_in_turn(n);
    // Next to the end of the range of double the arguments are infinite, and no merge makes nothing of that.
    if (merging > 0) t += merging * (u_softmax * (2 * (z_top + lazy + ln_n + 1) + 2 * (ln_n + 1)) + 2 * ln_exp);
    t += splits(n) * u_softmax;
  }
  return t;
}

double Numbers::shared_rounding(double n, double blocks, double r, double z_top) const {
  double t = loss_of_values(n, blocks, (pv_narrower ? 2 : 1) * r + 2) + 4 * u_final * c_div + u_operand;
  if (arithmetic.lse_merge == LseMerge::flat) t += u_partial;
  return with_merges(t, n, z_top);
}

}  // namespace attest::oracle
