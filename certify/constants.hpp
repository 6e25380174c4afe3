#pragma once
#include <optional>
#include <string>
#include <vector>

#include "certify/ball.hpp"
#include "certify/certificate.hpp"
#include "core/contract.hpp"
#include "core/inputs.hpp"

namespace attest::certify {

// u_X, eta_X and OVF(X) of docs/bounds.md.
struct Unit {
  Unit(Format the_format, bool flush);
  Format format;
  Ball u, eta, overflow;
};

// The loss of one sum of products to the blocks of tensor cores, docs/bounds.md section 4c.
struct Blocks {
  // `bits`: fraction bits of a product. `singly`: products may be added one by one, too.
  Blocks(const Mma& mma, Format accumulator, int bits, bool singly);
  // Relative to the sum of magnitudes, for n products in b blocks.
  [[nodiscard]] Ball loss(const Ball& n, const Ball& b) const { return (n - b) * each + b * first; }
  // The error that subnormal factors add, per unit of the other factor: `least` is the smallest normal number of their
  // format.
  [[nodiscard]] Ball aligned(const Ball& n, const Ball& b, double least) const {
    return 2 * (n + (top_is_cut ? b : Ball(0))) * cut * least;
  }
  // 2^-frac; the losses of a product and of the first of a block; the size below which these are absolute.
  Ball cut, each, first, smallest;
  bool top_is_cut;  // the largest term of a block may lose bits, too
};

// The contract's numbers as balls, docs/bounds.md section 0, with what depends on D, the scale and the softcap alone.
struct Constants {
  // `float64_errors` is how many times the terms that docs/bounds.md adds for the oracle's own rounding are counted. It
  // is 0 for a proof, which makes no such error. Tests use others to hold the oracle's interval between two of these.
  Constants(const Contract& contract, const Inputs& inputs, double float64_errors);

  Arithmetic how;
  bool flush, exp2, merges, softcap_first;
  double float64_errors;
  double sigma, softcap;
  Index d;
  Unit operand, scale, acc, score, cap, softmax, weights, pv, partial;
  Format storage, output;

  // Section 1.
  bool operand_cut;     // it is rounded toward zero: tensor cores ignore the bits that tf32 lacks
  bool operand_rounds;  // its format does not hold all numbers of storage
  Ball u_operand;       // 0 unless it is narrower than storage
  Ball eta_operand;     // by flush-to-zero of storage too: inputs may be flushed as they are read
  Ball mu;              // max(1, |sigma|)
  std::optional<Blocks> qk_blocks, pv_blocks, sum_blocks;  // set where sums are made of blocks
  Ball e_acc;                                              // E(D, kappa u_acc), or the loss of blocks
  Ball eta_products;                                       // absolute error of the D products of a score
  Ball eta_aligned;                                        // error by subnormal factors, per unit of the other
  double least_factor = 0;         // the smallest normal number of the operands of the first product
  double least_weight_factor = 0;  // and of the second
  Index key_blocks = 0;            // blocks that hold all keys, at most
  Ball relative_scale;             // E(r, u_sct), and the underflow of the unscaled score over |sigma|
  Ball e_entering;                 // rounding q or k to operand once they carry the scale; 0 where that loses nothing
  Ball eta_entering;               // their underflow
  bool
      // A q or k that carries the scale may be past the range of its format before, as stored or as an operand.
      brought;
  Ball folded_eta;       // underflow of an element that the scale is folded into; 0 without folding
  Ball u_bias_unit;      // rounding of a bias that is brought to the unit of log2 e; 0 where that is not folded in
  bool has_bias;         // the call adds one, be it 0
  bool bias_rounds;      // the bias is of a finer type than the score
  double smallest_bias;  // smaller ones may be flushed as they are read; 0 if none
  bool exact_scores;     // no score of the whole call is rounded, up to the score and softmax's format
  // Section 5, per key. log2 e may be folded in with the scale under exp2: then all of these count times `unit`.
  Ball unit, overflow_mu, e_acc_overflow, raw_overflow, largest_factor, largest_entering, query_factor, key_factor;
  bool with_log2_e;                         // whether the scale may bring log2 e along, be it folded or not
  bool scaled_queries, scaled_keys, folds;  // which of q and k the scale may be folded into, and whether into either
  // Section 2.
  Ball lazy, a1, a2, a3, c_exp;
  Ball ln_exp;  // largest |ln| of the factor that one exp may be off by
  // Section 4.
  Ball u_sum;  // largest |ln| of the factor by which one rounding may change the row sum
  Ball u_weights, eta_weights, u_pv, u_final, c_div, u_partial, eps0, eps_lazy, lifted, eps1, eta_final, overflow_out;
  bool weights_round, pv_narrower;
  int per_unit_weight;  // how many times |1 - w| the roundings of a weight w may move it

  // Tells whether additions are rounded to nearest: n of them lose n u of the sum of magnitudes.
  [[nodiscard]] bool sums_linearly() const { return how.kappa <= 1; }
  // ln of the factor by which n roundings of a sum may change the sum of magnitudes.
  [[nodiscard]] Ball ln_of_sum(const Ball& n, const Ball& u) const { return sums_linearly() ? log1p(n * u) : n * u; }
  void take_blocks(Index keys);
  // Drops the exactness of q and k that are intervals: a number between their ends is no multiple of anything.
  void forget_what_is_exact();
  // Returns the fields above that determine the interval, by the names of docs/bounds.md.
  [[nodiscard]] std::vector<Figure> figures() const;
};

// Tells whether rounding from one format to another can lose bits or underflow sooner.
bool loses(Format to, Format from);

}  // namespace attest::certify
