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
// Return at least e^x, and at least growth(x), mostly without libm: for proofs, which may be a little too pessimistic.
// They never fall.
inline double exp_most(double x) { return x < 1 ? 1 + x * (1.0001 + x) : std::max(3.0001, std::exp(x) * (1 + 1e-12)); }
inline double growth_most(double x) { return x < 1 ? x * (1.0001 + x) : std::max(2.0001, growth(x) * (1 + 1e-12)); }
// E(k, u) of docs/bounds.md: the largest relative change of a product by k roundings of relative size u.
inline double compounded(double k, double u) { return growth(k * u * (1 + u)); }

inline bool is_power_of_two(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5;
}

// Tells whether rounding from one format to another can lose bits or underflow sooner.
[[gnu::always_inline]] constexpr bool loses(Format to, Format from) {
  return narrower(to, from) || smallest_normal(to) > smallest_normal(from);
}

// Rounding of operations: to the nearest number, or to either neighbour, which doubles every error (docs/bounds.md,
// section 6).
enum class RoundingMode : std::uint8_t { nearest, directed };

// The numbers of a contract in which the bounds are written (docs/bounds.md, section 0). u_ is a unit roundoff, eta_ an
// absolute rounding error, overflow_ a threshold. The three structs hold those of a score, of a weight and of an output
// (sections 1, 2 and 4) that depend on the contract alone.
struct ScoreNumbers {
  double u_operand, eta_operand, overflow_operand;
  double u_acc, u_scale;  // u_acc and, below, u_pv: times kappa
  double eta_acc, overflow_acc, u_score, eta_score, overflow_score, eta_scale, u_cap, eta_cap, overflow_cap,
      overflow_scale;
  double e_cap;  // error of the argument of tanh: s and c converted, divided or multiplied by a rounded 1/c
  double tanh_relative,
      tanh_absolute;      // tanh itself and the product with c, relative to |z|, or to c where that is declared
  double tanh_underflow;  // a relative error in ulps where these are subnormal, times c
  double smallest_cap;    // the smallest normal number of the softcap's format
  double e_operand;
  double u_brought;          // error of a bias that is brought to the unit of log2 e
  double e_scale, e_root;    // error of the scale, and of one whose root q and k each carry
  double scaled_overflow;    // the largest product with a scale
  double entering_overflow;  // overflow threshold of a q or k that carries the scale
  Format score_format, softmax_format;
  double u_entering, eta_of_entering;  // those of the operand's format, where that loses numbers of the scale's
  bool operand_rounds;                 // an operand rounds the numbers that storage holds
  bool operand_cut;                    // it rounds toward zero
  bool operand_flushes;                // it rounds, or flush-to-zero: absolute errors arise on entering a product
  bool softcap_before_bias;
};
struct WeightNumbers {
  double u_softmax, eta_softmax, overflow_softmax, a1, a2, a3, c_exp, lazy, exp_lazy;
  double ln_exp;                // largest |ln| of the factor that one exp may be off by: -ln(1 - c_exp)
  double log_overflow_softmax;  // at most ln of the threshold
  bool exp_of_nothing;          // an exp that is off by an ulp may be a number where it should be 0
  double near;                  // nats below the maximum beyond which a score of -inf changes nothing
  bool exp2;
};
struct OutputNumbers {
  std::uint64_t contract_number;  // identifies the contract's numbers among those of other contracts in this process
  double u_weights, eta_weights, u_pv, eta_pv, overflow_pv, u_final, c_div, u_partial, eta_partial, overflow_partial;
  double u_sum;  // |ln| of the factor by which one rounding may change the row sum, which divides
  double kappa, eps0;
  double eps_lazy;  // the most that an underflowing factor of rescaling takes of weights of e^lazy
  double lifted;    // error of an exp that should be less than a subnormal number, times 2^200
  double eps1, eta_final, log_overflow_weights, overflow_out;
  bool weights_round, pv_narrower, merges, flush;
  // The rounding of a number w to a format that holds 1 moves it by |1 - w| at most; a second rounding to another
  // format by twice as much.
  double per_unit_weight;
  BlockSums pv_sums, weight_sums;  // sums of weighted values, and of weights alone
  double smallest_weight_factor;   // the smallest normal number of the operands of the second product
  Format output;
  RoundingMode rounding;
};

// The same with the numbers that depend on D, the scale and the softcap too. The contract's numbers are kept, per
// thread, for the next problem under the same contract.
struct Numbers : ScoreNumbers, WeightNumbers, OutputNumbers {
  Numbers(const Contract& contract, Index dimension, double sigma, double cap,
          RoundingMode rounding = RoundingMode::nearest);

  Arithmetic arithmetic;
  double d = 0, scale = 0, scale_magnitude = 0, mu = 0, softcap = 0;
  bool has_bias = false;     // the call adds one, be it 0
  double u_bias = 0;         // rounding of the bias itself, where its type is wider than the score's
  double smallest_bias = 0;  // smaller ones may be flushed as they are read
  double e_acc, e_acc_overflow, relative_scale, folded_eta, raw_overflow, operand_mu;
  double unit;         // unit of an overflowing score: log2 e, if exp2's factor may be folded in with the scale
  double overflow_mu;  // max(1, |scale| unit)
  double u_bias_unit;  // rounding of a bias that is brought to that unit, relative to it
  // A q or k that carries the scale is rounded to the operand's format as it enters the product: its error relative to
  // a score, and that of each of their elements. 0 where that loses nothing.
  double e_entering = 0, eta_entering = 0;
  double query_overflow, key_overflow;  // magnitudes from which q, or k, may be infinite once the scale is folded in
  double eta_products;                  // error of the D products, which may underflow or, in blocks, be cut
  double eta_aligned = 0;         // error of blocks that align to subnormal factors, times the largest other factor
  double smallest_factor = 0;     // the smallest normal number of the operands of the first product
  double most_blocks = infinity;  // blocks of keys, in any split of a row
  bool exact_scores = false;      // no computed score of this call is rounded; a3 may be 0 then

  // R: the most rescalings, for n keys out of lk of which `records` may set a new running maximum.
  [[nodiscard]] double rescalings(double n, double lk, double records) const;
  [[nodiscard]] double splits(double n) const {
    return arithmetic.splits_max ? static_cast<double>(*arithmetic.splits_max) : n;
  }
  // The number of quotients of splits in which one result of a row may err, one after the other or all together: each
  // of a chain.
  [[nodiscard]] double split_quotients(double n) const {
    return !merges ? 0 : arithmetic.lse_merge == LseMerge::chain ? splits(n) : 1;
  }
  // The error of a quotient that underflows, in units of eta, beyond one: its ulps are those of subnormals.
  [[nodiscard]] double division_excess() const { return std::max(0.0, c_div - 1); }
  // The largest part of a weight that a rescaling may wrongly take or leave, where the shift of its own block may make
  // it too large by so many nats; it is finite.
  [[nodiscard]] double wrongly_rescaled(double overshoot) const {
    const double nats = lazy + overshoot;
    const double weight = nats < 709 ? std::min(std::exp(nats), overflow_softmax) : overflow_softmax;
    return std::max(eps_lazy, weight * 0x1p-200 * lifted);
  }
  // a2 with the merges of a chain.
  [[nodiscard]] double merged_a2(double n) const;
  // The largest |ln| of the largest weight, per unit of the score: the error of an argument of 2^x, or of exp(lse_i -
  // lse). It is 0 without these, and of two splits that are merged the larger keeps a factor of 1.
  [[nodiscard]] double wrong_shift(double n) const {
    const bool by_lse = merges && arithmetic.merge_weights == MergeWeights::lse;
    return u_softmax * (a1 + (by_lse ? merged_a2(n) : exp2 ? 2 : 0));
  }
  // The number of blocks in which n keys may lie. Where no key is added by itself, merging a split costs as much as a
  // block.
  [[nodiscard]] double blocks(double n) const {
    const bool counts_splits = merges && arithmetic.mma && arithmetic.mma->only;
    return std::min(n, most_blocks + (counts_splits ? splits(n) - 1 : 0));
  }
  // Tells whether additions are rounded to nearest, so that n of them lose n u of the sum of magnitudes
  // (docs/bounds.md, "Sums").
  [[nodiscard]] bool sums_linearly() const { return kappa <= 1 && rounding == RoundingMode::nearest; }
  // ln of the factor by which n roundings may change the sum of magnitudes.
  [[nodiscard]] double ln_of_sum(double n, double u) const { return sums_linearly() ? std::log1p(n * u) : n * u; }
  // ln of the factor by which sums over n keys in so many blocks may change the sum of magnitudes: of weighted values
  // with `more` roundings of another kind, and of weights that are rescaled r times.
  [[nodiscard]] double loss_of_values(double n, double blocks, double more) const {
    return (pv_sums.any() ? pv_sums.relative(n, blocks) : ln_of_sum(n, u_pv)) + more * u_pv;
  }
  [[nodiscard]] double loss_of_weights(double n, double blocks, double r) const {
    return weight_sums.any() ? weight_sums.relative(n, blocks) + r * u_softmax
                             : ln_of_sum(n, kappa * u_softmax) + r * kappa * u_softmax;
  }
  // The largest |ln| of the factor by which those roundings may change the sum of weights.
  [[nodiscard]] double ln_loss_of_weights(double n, double blocks, double r) const {
    if (!weight_sums.any()) return ln_of_sum(n - 1, u_sum) + r * u_sum;
    const double lost = weight_sums.relative(n, blocks);
    return (lost < 1 ? bounded(-std::log1p(-lost)) : bounded(infinity)) + r * u_softmax;
  }
  // The part of ln_of_sum() that no longer counts where no more than `keys` of n cost a rounding of a sum.
  [[nodiscard]] double spared_values(double n, double keys) const { return ln_of_sum(n, u_pv) - ln_of_sum(keys, u_pv); }
  [[nodiscard]] double spared_weights(double n, double keys) const {
    return ln_of_sum(n - 1, u_sum) - ln_of_sum(keys - 1, u_sum);
  }
  // Tells whether sums over n keys may lose half of their size: only then is an interval asked whether it may keep to
  // one side of 0.
  [[nodiscard]] bool sums_are_coarse(double n) const {
    return sums_linearly() && !pv_sums.any() && !weight_sums.any() && n * (u_pv + u_softmax) >= 0.5;
  }
  // ln of the factor by which a sum of n numbers of one sign may be too large, at most. It is less than that by which
  // it may be too small.
  [[nodiscard]] double ln_sum_too_large(double n, double u) const {
    const double c = n * u * u, root = std::sqrt(c) + std::sqrt(1 + c);
    return std::log(std::min(1 + (n - 1) * u, 2 * root * root));
  }
  // Tells whether the sums over keys, of weighted values or of weights, are additions that round to nearest: such an
  // addition loses no more than the lesser of its terms.
  [[nodiscard]] bool values_lose_least(double n) const { return loses_least(n) && !pv_sums.any(); }
  [[nodiscard]] bool weights_lose_least(double n) const { return loses_least(n) && !weight_sums.any(); }
  // N of section 4.
  [[nodiscard]] double shared_rounding(double n, double blocks, double r, double z_top) const;
  // Tells whether chains of merges, or merges without a division, add to that.
  [[nodiscard]] bool merges_widen() const {
    return arithmetic.lse_merge == LseMerge::chain || (merges && arithmetic.merge_weights == MergeWeights::lse);
  }

 private:
  // The part of N that chains of merges, and merges without a division, add to t.
  [[nodiscard]] double with_merges(double t, double n, double z_top) const;
  // The largest number of merges one after the other.
  [[nodiscard]] double merges_in_turn(double n) const {
    return arithmetic.lse_merge == LseMerge::chain ? splits(n) - 1 : 1;
  }
  // Shorter rows would gain too little to be worth the time.
  [[nodiscard]] bool loses_least(double n) const { return n >= 32 && kappa <= 1 && rounding == RoundingMode::nearest; }
  // Computes the numbers that depend on the contract alone.
  Numbers(const Contract& contract, RoundingMode rounding);
  Numbers(const Numbers& kept, const Contract& contract, Index dimension, double sigma, double cap);
  static const Numbers& of_contract(const Contract& contract, RoundingMode rounding);
};

}  // namespace attest::oracle
