#pragma once
#include <numbers>

#include "kernels/fused/fused.hpp"
#include "kernels/mma.hpp"
#include "kernels/truncating.hpp"

// Correct departures from CleanSteps, each with promises of its own. Faults may depart from them too.
namespace attest::kernels {

template <Index keys>
struct TileSteps : CleanSteps {
  static constexpr Index tile = keys;
};

// Splits the keys into up to four parts, whole tiles each.
struct SplitSteps : TileSteps<16> {
  static constexpr Index splits_max = 4;
  static Index splits(const Call&) { return splits_max; }
};

// Takes as many splits as keep the cores busy: fewer for a batch, so that a sample alone has other bits. It promises no
// more.
struct BatchSplitSteps : SplitSteps {
  static constexpr bool batch_bitwise = false;
  static Index splits(const Call& call) { return call.b == 1 ? splits_max : splits_max / 2; }
};

// Each split joins what is merged already, as when blocks of keys come from one machine after another.
struct SplitChainSteps : SplitSteps {
  static constexpr LseMerge merge = LseMerge::chain;
};

// The partial results are weighed by exp(lse_s - lse), as many combining kernels of split-KV decoding do.
struct SplitLseWeightsSteps : SplitSteps {
  static constexpr MergeWeights merge_weights = MergeWeights::lse;
};

// Rows are rescaled only where the maximum rises by more than 8 ln 2, so that weights reach 256; not where such weights
// would soon overflow.
struct LazySteps : TileSteps<16> {
  static double lag(const Policy& policy) {
    return has_short_range(policy[Stage::softmax]) || has_short_range(policy[Stage::pv]) ? 0 : 8 * std::numbers::ln2;
  }
};

// The weights are rounded first, and the row sum is theirs: as a column of ones beside v gives it.
struct SumRoundedSteps : CleanSteps {
  static constexpr bool sum_of_rounded = true;
};

// Accumulators of both products and of the row sum that truncate, as those of tensor cores do.
struct TruncatingSteps : CleanSteps {
  static constexpr bool wide = true;
  static void promise(Arithmetic& arithmetic) { arithmetic.kappa = 3; }
  static void dot(const Call& call, Format format, const double* q, const double* keys, Index width, double* dots) {
    truncating_dot_keys(format, q, keys, padded(width), call.d, width, dots);
  }
  static void add_to_total(const Call& call, const double* weights, Index n, double& total) {
    total = truncating_sum(call[Stage::softmax], total, weights, n);
  }
  static void rescale_total(const Call& call, double factor, double& total) {
    total = truncated(call[Stage::softmax], total * factor);
  }
  static void rescale_output(const Call& call, double factor, double* output) {
    truncating_scale_all(call[Stage::pv], round_to(call[Stage::pv], factor), output, call.dv);
  }
  static void weigh_values(const Call& call, const Piece&, const double* weights, const std::int32_t* open, Index count,
                           const double* values, double* output) {
    truncating_add_weighted(call[Stage::pv], weights, open, count, values, padded(call.dv), call.dv, output);
  }
};

// Accumulators of both products that are tensor cores, of the generation that has `frac`: blocks of products, one onto
// the other.
template <Index products, int frac>
struct TensorCoreSteps : CleanSteps {
  static constexpr bool wide = true;
  static constexpr Mma mma{.block = products, .frac = frac, .out = MmaResult::f32, .only = true};
  static void promise(Arithmetic& arithmetic) { arithmetic.mma = mma; }

  static void dot(const Call& call, Format format, const double* q, const double* keys, Index width, double* dots) {
    dot_in_blocks(mma, call, format, q, keys, width, dots);
  }
  static void weigh_values(const Call& call, const Piece&, const double* weights, const std::int32_t* open, Index count,
                           const double* values, double* output) {
    add_in_blocks(mma, call, weights, open, count, values, output);
  }

 protected:
  static void dot_in_blocks(const Mma& how, const Call& call, Format format, const double* q, const double* keys,
                            Index width, double* dots) {
    const Index stride = padded(width);
    if (!adds_blocks_in(how, format)) return dot_keys(format, q, keys, stride, call.d, width, dots);
    const MmaUnit made(how, format, call[Stage::operand]);
    std::fill_n(dots, stride, 0.0);
    for (Index j = 0; j < width; ++j) dots[j] = made.chain(0, q, 1, keys + j, stride, call.d, products);
  }
  static void add_in_blocks(const Mma& how, const Call& call, const double* weights, const std::int32_t* open,
                            Index count, const double* values, double* output) {
    const Format format = call[Stage::pv];
    const Index stride = padded(call.dv);
    if (!adds_blocks_in(how, format))
      return add_weighted(format, weights, open, count, values, stride, call.dv, output);
    const MmaUnit made(how, format, call[Stage::operand]);
    double weight[products], value[products];
    for (Index at = 0; at < count; at += products) {
      const Index here = std::min(products, count - at);
      for (Index t = 0; t < here; ++t) weight[t] = weights[open[at + t]];
      for (Index c = 0; c < call.dv; ++c) {
        for (Index t = 0; t < here; ++t) value[t] = values[open[at + t] * stride + c];
        output[c] = made.block(output[c], weight, 1, value, 1, here);
      }
    }
  }
};
using VoltaSteps = TensorCoreSteps<4, 23>;
using AmpereSteps = TensorCoreSteps<8, 24>;
using HopperSteps = TensorCoreSteps<8, 25>;

// Subnormal inputs and results are zero, as in code compiled for speed.
struct FlushSteps : CleanSteps {
  static constexpr bool flush = true;
};

// A fast exp, up to 19 ulp too small towards the ends of the interval that its argument is reduced to; exact at 0.
struct PoorExpSteps : CleanSteps {
  static void promise(Arithmetic& arithmetic) { arithmetic.exp_ulp = 20; }
  // Powers that were right, for arguments x.
  template <class Real>
  static Real spoilt(Format format, Real power, Real x) {
    const double n = std::nearbyint(static_cast<double>(x) * std::numbers::log2e);
    const double r = static_cast<double>(x) - n * std::numbers::ln2, r2 = r * r;
    // At r = -ln(2)/2 the power is sqrt(1/2) times a power of two, and 19 ulp of it are 19 sqrt(2) u.
    constexpr double end = std::numbers::ln2 / 2;
    constexpr double largest = 19 * std::numbers::sqrt2 / (end * end * end * end * end * end);
    if (!(power > 0) || !(r2 < 1)) return power;  // 0, infinite or NaN
    return static_cast<Real>(
        round_to(format, static_cast<double>(power) * (1 - unit_roundoff(format) * largest * r2 * r2 * r2)));
  }
  template <class Real>
  static Real power(const Call& call, Base base, Real x) {
    return spoilt(call[Stage::softmax], CleanSteps::power(call, base, x), x);
  }
  template <class Real>
  static void powers(const Call& call, Base base, const Real* s, Real shift, Index n, Real* weights) {
    const Format format = call[Stage::softmax];
    CleanSteps::powers(call, base, s, shift, n, weights);
    for (Index j = 0; j < n; ++j)
      weights[j] = spoilt(format, weights[j], static_cast<Real>(round_to(format, s[j] - shift)));
  }
};

struct Exp2Steps : CleanSteps {
  static constexpr Base base = Base::two;
};

struct ReversedSteps : CleanSteps {
  static constexpr bool descending = true;
};

// The scale multiplies q, which enters the product in the format of the scale stage.
struct ScaledQuerySteps : CleanSteps {
  static void promise(Arithmetic& arithmetic) { arithmetic.fold_q = true; }
  template <class Real>
  static void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) {
    kernels::load_queries(call, b, h, i0, rows, queries);
    scale_all(call[Stage::scale], static_cast<Real>(call.scale), queries, rows * padded(call.d));
  }
  template <class Real>
  static void scale(const Call& call, Real* s, Index n) {
    round_all(call[Stage::score], s, n);
  }
};

// The scale multiplies k.
struct ScaledKeySteps : CleanSteps {
  static void promise(Arithmetic& arithmetic) { arithmetic.fold_k = true; }
  template <class Real>
  static void load_keys(const Call& call, Index b, Index kv_head, Index j0, Index n, Index width, Real* keys) {
    kernels::load_keys(call, b, kv_head, j0, n, width, keys);
    scale_all(call[Stage::scale], static_cast<Real>(call.scale), keys, call.d * padded(width));
  }
  template <class Real>
  static void scale(const Call& call, Real* s, Index n) {
    round_all(call[Stage::score], s, n);
  }
};

// The root of the scale multiplies both q and k; a scale that has none, the score.
struct ScaledRootsSteps : CleanSteps {
  static void promise(Arithmetic& arithmetic) { arithmetic.fold_sqrt = true; }
  template <class Real>
  static Real root(const Call& call) {
    return static_cast<Real>(round_to(call[Stage::scale], std::sqrt(call.scale)));
  }
  template <class Real>
  static void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) {
    kernels::load_queries(call, b, h, i0, rows, queries);
    if (call.scale > 0) scale_all(call[Stage::scale], root<Real>(call), queries, rows * padded(call.d));
  }
  template <class Real>
  static void load_keys(const Call& call, Index b, Index kv_head, Index j0, Index n, Index width, Real* keys) {
    kernels::load_keys(call, b, kv_head, j0, n, width, keys);
    if (call.scale > 0) scale_all(call[Stage::scale], root<Real>(call), keys, call.d * padded(width));
  }
  template <class Real>
  static void scale(const Call& call, Real* s, Index n) {
    if (call.scale > 0)
      round_all(call[Stage::score], s, n);
    else
      apply_scale(call, s, n);
  }
};

}  // namespace attest::kernels
