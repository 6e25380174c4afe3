#pragma once
#include "kernels/fused/fused.hpp"

// Correct departures from CleanSteps, each with promises of its own. Faults may depart from them too.
namespace attest::kernels {

template <Index keys>
struct TileSteps : CleanSteps {
  static constexpr Index tile = keys;
};

// Up to four parts of the keys, whole tiles each.
struct SplitSteps : TileSteps<16> {
  static constexpr Index splits_max = 4;
  static Index splits(const Call&) { return splits_max; }
};

struct Exp2Steps : CleanSteps {
  static constexpr Base base = Base::two;
};

struct ReversedSteps : CleanSteps {
  static constexpr bool descending = true;
};

// The scale multiplies q, which enters the product in the format of the scale stage.
struct ScaledQuerySteps : CleanSteps {
  static constexpr bool scale_on_query = true;
  template <class Real>
  static void load_queries(const Call& call, Index b, Index h, Index i0, Index rows, Real* queries) {
    const Index step = padded(call.d);
    kernels::load_queries(call, b, h, i0, rows, queries);
    scale_all(call[Stage::scale], static_cast<Real>(call.scale), queries, rows * step);
  }
  template <class Real>
  static void scale(const Call& call, Real* s, Index n) {
    round_all(call[Stage::score], s, n);
  }
};

}  // namespace attest::kernels
