#pragma once
#include <limits>

#include "kernels/arithmetic.hpp"
#include "kernels/empty_row.hpp"
#include "kernels/rows.hpp"
#include "kernels/scores.hpp"
#include "kernels/tiles.hpp"

namespace attest::kernels {

// The steps of fused attention. A variant or a fault derives from this and replaces a step; the kernel (fused.hpp) is
// compiled for each, so that no step costs the others anything. Real is float or double.
struct CleanSteps {
  // The variant, which fused_contract() (fused.hpp) turns into promises.
  static constexpr Index tile = 64;       // keys at once
  static constexpr Index splits_max = 1;  // parts of the keys that are reduced apart and merged by their log-sum-exp
  static constexpr LseMerge merge = LseMerge::flat;  // merge of splits, if there are any
  static constexpr MergeWeights merge_weights = MergeWeights::normalised;
  static constexpr Base base = Base::e;          // base of the exponential
  static constexpr bool descending = false;      // keys from the last to the first
  static constexpr bool sum_of_rounded = false;  // whether the row sum takes the rounded weights
  static constexpr bool wide = false;            // computes in double, whatever the policy
  static constexpr bool batch_bitwise = true;    // a sample has the same bits in any batch
  static constexpr bool flush = false;           // runs with the machine's flush-to-zero switched on
  // Nats by which the running maximum may lag behind before a row is rescaled.
  static double lag(const Policy&) { return 0; }
  // Adds the variant's other promises.
  static void promise(Arithmetic&) {}

  // -- where things are --
  static View view(const attest_tensor& tensor) { return strided(tensor); }  // q, k and v
  static Index kv_head(const Call& call, Index h) { return h / call.group(); }
  static Index value_sample(Index b) { return b; }
  static Index splits(const Call&) { return 1; }
  // Returns how many logits of a tile of n keys take part.
  static Index width(Index n) { return n; }

  // -- scores --
  static Format qk_format(const Call& call) { return call[Stage::qk]; }
  template <class Real>
  static void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) {
    kernels::load_queries(call, b, h, i0, rows, queries);
  }
  template <class Real>
  static void load_keys(const Call& call, Index b, Index kv_head, Index j0, Index n, Index width, Real* keys) {
    kernels::load_keys(call, b, kv_head, j0, n, width, keys);
  }
  // dots[j] = q . keys[j] for `width` keys.
  template <class Real>
  static void dot(const Call& call, Format format, const Real* q, const Real* keys, Index width, Real* dots) {
    dot_keys(format, q, keys, padded(width), call.d, width, dots);
  }
  template <class Real>
  static void scale(const Call& call, Real* s, Index n) {
    apply_scale(call, s, n);
  }
  template <class Real>
  static void cap_and_bias(const Call& call, const Piece& piece, Real* s) {
    if (call.softcap_before_bias) apply_softcap(call, s, piece.n);
    add_bias(call, piece, s);
    if (!call.softcap_before_bias) apply_softcap(call, s, piece.n);
  }
  static Index diagonal(const Call& call, Index i, Index length) {
    return kernels::diagonal(call.align, i, length, call.lq);
  }
  template <class Real>
  static void mask(const Call& call, const Piece& piece, Real* s) {
    apply_mask(call, piece, -std::numeric_limits<Real>::infinity(), s);
  }

  // -- the online softmax --
  // The running maximum before the first key.
  template <class Real>
  static constexpr Real first_largest = -std::numeric_limits<Real>::infinity();
  static Format weights_format(const Call& call) { return call[Stage::weights]; }
  // base^x, and base^(s - shift) of n scores.
  template <class Real>
  static Real power(const Call& call, Base base, Real x) {
    return kernels::power(call[Stage::softmax], base, x);
  }
  template <class Real>
  static void powers(const Call& call, Base base, const Real* s, Real shift, Index n, Real* weights) {
    powers_above(call[Stage::softmax], base, s, shift, n, weights);
  }
  // total += the sum of n weights.
  template <class Real>
  static void add_to_total(const Call& call, const Real* weights, Index n, Real& total) {
    const Format format = call[Stage::softmax];
    total = static_cast<Real>(round_to(format, total + sum_of(format, weights, n)));
  }
  // The running sums of a row when its maximum rises: factor = exp(old - new).
  template <class Real>
  static void rescale_total(const Call& call, Real factor, Real& total) {
    total = static_cast<Real>(round_to(call[Stage::softmax], total * factor));
  }
  template <class Real>
  static void rescale_output(const Call& call, Real factor, Real* output) {
    scale_all(call[Stage::pv], static_cast<Real>(round_to(call[Stage::pv], factor)), output, call.dv);
  }
  // output += weights times the values of the `count` keys in `open`, offsets into the piece.
  template <class Real>
  static void weigh_values(const Call& call, const Piece&, const Real* weights, const std::int32_t* open, Index count,
                           const Real* values, Real* output) {
    add_weighted(call[Stage::pv], weights, open, count, values, padded(call.dv), call.dv, output);
  }
  template <class Real>
  static void normalise(const Call& call, Real total, Real* output) {
    divide_all(call[Stage::pv], total, output, call.dv);
  }
  // The log-sum-exp by which a split is weighed against the others; -inf if none of its keys was open.
  template <class Real>
  static Real split_lse(Real lse) {
    return lse;
  }
  template <class Real>
  static void empty_row(const Call& call, Index sample, Index kv_head, Index length, Real* out) {
    kernels::empty_row(call, sample, kv_head, length, out);
  }
  // A finished row; its log-sum-exp is -inf if no key was open.
  template <class Real>
  static void write_output(const Call& call, Index b, Index h, Index i, Real* row, Real lse) {
    kernels::write_output(call, b, h, i, row, &lse);
  }
};

}  // namespace attest::kernels
