#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/contract.hpp"
#include "core/problem.hpp"
#include "oracle/sums.hpp"

namespace attest::oracle {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

// exp and expm1 that stay finite, so that a vacuous bound is huge instead of NaN.
inline double bounded(double x) { return std::min(x, 600.0); }
[[gnu::always_inline]] inline double growth(double x) {
  if (x < 0x1p-12 && x >= 0) return x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4)));  // to 2^-54
  return std::expm1(std::min(x, 700.0));
}
// At least e^x, and at least growth(x), mostly without libm: for proofs, which may be a little too pessimistic. They never fall.
inline double exp_most(double x) { return x < 1 ? 1 + x * (1.0001 + x) : std::max(3.0001, std::exp(x) * (1 + 1e-12)); }
inline double growth_most(double x) { return x < 1 ? x * (1.0001 + x) : std::max(2.0001, growth(x) * (1 + 1e-12)); }
// E(k, u) of docs/bounds.md: what k roundings of relative size u can do to a product.
inline double compounded(double k, double u) { return growth(k * u * (1 + u)); }

inline bool is_power_of_two(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5;
}

// Whether rounding from one format to another can lose bits or underflow sooner.
[[gnu::always_inline]] constexpr bool loses(Format to, Format from) {
  return narrower(to, from) || smallest_normal(to) > smallest_normal(from);
}

// How far operations round: to the nearest number, or to either neighbour, which doubles every error (docs/bounds.md,
// section 6).
enum class RoundingMode : std::uint8_t { nearest, directed };

// What a contract says, as the numbers that the bounds are written in (docs/bounds.md, section 0). u_ is a unit roundoff,
// eta_ an absolute rounding error, overflow_ a threshold. Those of a score, of a weight and of an output (sections 1, 2
// and 4) that the contract alone decides:
struct ScoreNumbers {
  double u_operand, eta_operand, overflow_operand;
  double u_acc, u_scale;  // u_acc and, below, u_pv: times kappa
  double eta_acc, overflow_acc, u_score, eta_score, overflow_score, eta_scale, u_cap, eta_cap, overflow_cap,
      overflow_scale;
  double e_cap;  // of the argument of tanh: s and c converted, divided or multiplied by a rounded 1/c
  double tanh_relative,
      tanh_absolute;      // tanh itself and the product with c, relative to |z|, or to c where that is declared
  double tanh_underflow;  // a relative error in ulps where these are subnormal, times c
  double smallest_cap;    // the smallest normal number of the softcap's format
  double e_operand;
  double u_brought;          // of a bias that is brought to the unit of log2 e
  double e_scale, e_root;    // of the scale, and of one of which q and k each carry the root
  double scaled_overflow;    // what a product with a scale may be at most
  double entering_overflow;  // of a q or k that carries the scale
  Format score_format, softmax_format;
  double u_entering, eta_of_entering;  // of the operand's format, where that loses what the scale's holds
  bool operand_rounds;                 // to the operand format, what storage holds
  bool operand_cut;                    // toward zero
  bool operand_flushes;                // that, or flush-to-zero: absolute errors arise on entering a product
  bool softcap_before_bias;
};
struct WeightNumbers {
  double u_softmax, eta_softmax, overflow_softmax, a1, a2, a3, c_exp, lazy, exp_lazy;
  double ln_exp;                // |ln| of what one exp may make of its result: -ln(1 - c_exp)
  double log_overflow_softmax;  // at most ln of the threshold
  bool exp_of_nothing;          // an exp that is off by an ulp may be a number where it should be 0
  double near;                  // nats below the maximum beyond which a score of -inf changes nothing
  bool exp2;
};
struct OutputNumbers {
  std::uint64_t contract_number;  // tells what the contract decides from that of any other contract in this process
  double u_weights, eta_weights, u_pv, eta_pv, overflow_pv, u_final, c_div, u_partial, eta_partial, overflow_partial;
  double u_sum;  // |ln| of what one rounding of the row sum, which divides, may make of it
  double kappa, eps0;
  double eps_lazy;  // what a factor of rescaling that underflows may take of weights of e^lazy
  double lifted;    // how much too large an exp may be that should be less than a subnormal number, times 2^200
  double eps1, eta_final, log_overflow_weights, overflow_out;
  bool weights_round, pv_narrower, merges, flush;
  // Rounding a number w to a format that holds 1 moves it by |1 - w| at most; rounding that to another by twice as much.
  double per_unit_weight;
  BlockSums pv_sums, weight_sums;  // of weights and values, and of weights alone
  double smallest_weight_factor;   // the smallest normal number of what enters the second product
  Format output;
  RoundingMode rounding;
};

// And what depends on D, the scale and the softcap too. The former are kept, per thread, for the next problem under the
// same contract.
struct Numbers : ScoreNumbers, WeightNumbers, OutputNumbers {
  Numbers(const Contract& contract, Index dimension, double sigma, double cap,
          RoundingMode rounding = RoundingMode::nearest);

  Arithmetic arithmetic;
  double d = 0, scale = 0, scale_magnitude = 0, mu = 0, softcap = 0;
  bool has_bias = false;     // the call adds one, be it 0
  double u_bias = 0;         // rounding of the bias itself, where its type is wider than the score's
  double smallest_bias = 0;  // smaller ones may be flushed as they are read
  double e_acc, e_acc_overflow, relative_scale, folded_eta, raw_overflow, operand_mu;
  double unit;         // of a score where overflow counts: log2 e, if exp2's factor may be folded in with the scale
  double overflow_mu;  // max(1, |scale| unit)
  double u_bias_unit;  // rounding of a bias that is brought to that unit, relative to it
  // A q or k that carries the scale is rounded to the operand's format as it enters the product: relative to a score, and of
  // each of their elements. 0 where that loses nothing.
  double e_entering = 0, eta_entering = 0;
  double query_overflow, key_overflow;  // magnitudes from which q, or k, may be infinite once the scale is folded in
  double eta_products;                  // of the D products, which may underflow one by one or, in blocks, be cut
  double eta_aligned = 0;  // of blocks whose exponents are those of subnormal factors, times the largest other factor
  double smallest_factor = 0;     // the smallest normal number of what enters the first product
  double most_blocks = infinity;  // of keys, in any split of a row
  bool exact_scores = false;      // no computed score of this call is rounded; a3 may be 0 then

  // R: the most rescalings, for n keys out of lk of which `records` may set a new running maximum.
  [[nodiscard]] double rescalings(double n, double lk, double records) const;
  [[nodiscard]] double splits(double n) const {
    return arithmetic.splits_max ? static_cast<double>(*arithmetic.splits_max) : n;
  }
  // In how many quotients of splits one result of a row may err, one after the other or all together: each of a chain.
  [[nodiscard]] double split_quotients(double n) const {
    return !merges ? 0 : arithmetic.lse_merge == LseMerge::chain ? splits(n) : 1;
  }
  // How many eta a quotient that underflows may be off by, beyond one: its ulps are those of subnormals.
  [[nodiscard]] double division_excess() const { return std::max(0.0, c_div - 1); }
  // What a rescaling may wrongly take of a weight or leave of it, where the shift of its own block may make it too large by so
  // many nats; it is not infinite.
  [[nodiscard]] double wrongly_rescaled(double overshoot) const {
    const double nats = lazy + overshoot;
    const double weight = nats < 709 ? std::min(std::exp(nats), overflow_softmax) : overflow_softmax;
    return std::max(eps_lazy, weight * 0x1p-200 * lifted);
  }
  // a2 with the merges of a chain.
  [[nodiscard]] double merged_a2(double n) const;
  // How far off 0, per unit of the score, ln of the largest weight may be: as far as an argument of 2^x, or of exp(lse_i - lse),
  // may be wrong. Without these it is 0, and of two splits that are merged the larger keeps a factor of 1.
  [[nodiscard]] double wrong_shift(double n) const {
    const bool by_lse = merges && arithmetic.merge_weights == MergeWeights::lse;
    return u_softmax * (a1 + (by_lse ? merged_a2(n) : exp2 ? 2 : 0));
  }
  // In how many blocks n keys may lie. Where none is added by itself, merging a split costs what a block does.
  [[nodiscard]] double blocks(double n) const {
    const bool counts_splits = merges && arithmetic.mma && arithmetic.mma->only;
    return std::min(n, most_blocks + (counts_splits ? splits(n) - 1 : 0));
  }
  // Whether additions are rounded to nearest, so that n of them lose n u of the sum of magnitudes (docs/bounds.md, "Sums").
  [[nodiscard]] bool sums_linearly() const { return kappa <= 1 && rounding == RoundingMode::nearest; }
  // ln of what n roundings of a sum may make of the sum of magnitudes.
  [[nodiscard]] double ln_of_sum(double n, double u) const { return sums_linearly() ? std::log1p(n * u) : n * u; }
  // ln of what sums over n keys in so many blocks may make of the sum of magnitudes: of weighted values with `more` roundings
  // of another kind, and of weights that are rescaled r times.
  [[nodiscard]] double loss_of_values(double n, double blocks, double more) const {
    return (pv_sums.any() ? pv_sums.relative(n, blocks) : ln_of_sum(n, u_pv)) + more * u_pv;
  }
  [[nodiscard]] double loss_of_weights(double n, double blocks, double r) const {
    return weight_sums.any() ? weight_sums.relative(n, blocks) + r * u_softmax
                             : ln_of_sum(n, kappa * u_softmax) + r * kappa * u_softmax;
  }
  // |ln| of what that may make of the sum of weights, at most.
  [[nodiscard]] double ln_loss_of_weights(double n, double blocks, double r) const {
    if (!weight_sums.any()) return ln_of_sum(n - 1, u_sum) + r * u_sum;
    const double lost = weight_sums.relative(n, blocks);
    return (lost < 1 ? bounded(-std::log1p(-lost)) : bounded(infinity)) + r * u_softmax;
  }
  // What of the former no longer counts where no more than `keys` of n cost a rounding of a sum.
  [[nodiscard]] double spared_values(double n, double keys) const { return ln_of_sum(n, u_pv) - ln_of_sum(keys, u_pv); }
  [[nodiscard]] double spared_weights(double n, double keys) const {
    return ln_of_sum(n - 1, u_sum) - ln_of_sum(keys - 1, u_sum);
  }
  // Whether sums over n keys may lose half of what they are: only then is an interval asked whether it may keep to one side of 0.
  [[nodiscard]] bool sums_are_coarse(double n) const {
    return sums_linearly() && !pv_sums.any() && !weight_sums.any() && n * (u_pv + u_softmax) >= 0.5;
  }
  // ln of how much too large a sum of n numbers of one sign may be, at most, which is less than how much too small it may be.
  [[nodiscard]] double ln_sum_too_large(double n, double u) const {
    const double c = n * u * u, root = std::sqrt(c) + std::sqrt(1 + c);
    return std::log(std::min(1 + (n - 1) * u, 2 * root * root));
  }
  // Whether the sums over keys, of weighted values or of weights, are so many additions that round to nearest: what such an
  // addition loses is no more than the lesser of its terms.
  [[nodiscard]] bool values_lose_least(double n) const { return loses_least(n) && !pv_sums.any(); }
  [[nodiscard]] bool weights_lose_least(double n) const { return loses_least(n) && !weight_sums.any(); }
  // N of section 4.
  [[nodiscard]] double shared_rounding(double n, double blocks, double r, double z_top) const;
  // Whether chains of merges, or merges without a division, add to that.
  [[nodiscard]] bool merges_widen() const {
    return arithmetic.lse_merge == LseMerge::chain || (merges && arithmetic.merge_weights == MergeWeights::lse);
  }

 private:
  // The part of N that chains of merges, and merges without a division, add to t.
  [[nodiscard]] double with_merges(double t, double n, double z_top) const;
  // How many merges there may be one after the other.
  [[nodiscard]] double merges_in_turn(double n) const {
    return arithmetic.lse_merge == LseMerge::chain ? splits(n) - 1 : 1;
  }
  // Shorter rows would gain too little to be worth the time.
  [[nodiscard]] bool loses_least(double n) const { return n >= 32 && kappa <= 1 && rounding == RoundingMode::nearest; }
  // Those that the contract alone decides.
  Numbers(const Contract& contract, RoundingMode rounding);
  Numbers(const Numbers& kept, const Contract& contract, Index dimension, double sigma, double cap);
  static const Numbers& of_contract(const Contract& contract, RoundingMode rounding);
};

}  // namespace attest::oracle
