#pragma once
#include "kernels/arithmetic.hpp"
#include "kernels/empty_row.hpp"
#include "kernels/scores.hpp"
#include "kernels/tiles.hpp"

namespace attest::kernels {

// What fused attention does, step by step. A variant or a fault derives from this and replaces a step; the kernel
// (fused.hpp) is compiled for each, so that no step costs the others anything. Real is float or double.
struct CleanSteps {
  // The variant, which fused_contract() (fused.hpp) turns into promises.
  static constexpr Index tile = 64;          // keys at once
  static constexpr Index splits_max = 1;     // parts of the keys that are reduced apart and merged by their log-sum-exp
  static constexpr Base base = Base::e;      // of the exponential
  static constexpr bool descending = false;  // keys from the last to the first
  static constexpr bool scale_on_query = false;

  // -- where things are --
  static View view(const attest_tensor& tensor) { return strided(tensor); }  // q, k and v
  static Index kv_head(const Call& call, Index h) { return h / call.group(); }
  static Index value_sample(Index b) { return b; }
  static Index splits(const Call&) { return 1; }
  // How many logits of a tile of n keys take part.
  static Index width(Index n) { return n; }

  // -- scores --
  static Format qk_format(const Call& call) { return call[Stage::qk]; }
  template <class Real>
  static void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) {
    kernels::load_queries(call, b, h, i0, rows, queries);
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
  static Format weights_format(const Call& call) { return call[Stage::weights]; }
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
  template <class Real>
  static void empty_row(const Call& call, Index sample, Index kv_head, Index length, Real* out) {
    kernels::empty_row(call, sample, kv_head, length, out);
  }
};

}  // namespace attest::kernels
