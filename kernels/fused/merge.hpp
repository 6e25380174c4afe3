#pragma once
#include <algorithm>
#include <limits>

#include "kernels/arithmetic.hpp"
#include "kernels/call.hpp"

// Splits of the keys of one row, merged by their log-sum-exp.
namespace attest::kernels {

// The results of each split for the row: its normalised output, in the partial format, and its log-sum-exp, -inf if
// none of its keys was open.
template <class Real>
struct Partials {
  const Real* outputs;
  Index step;
  const Real* lse;
  Index lse_step;
  Index splits;
};

// output = sum w_s partial_s / sum w_s over the splits with open keys, w_s = exp(lse_s - max lse). With weights `lse`
// sum exp(lse_s - lse) partial_s, and no division. Returns the log-sum-exp of the row, -inf if no key was open.
// `weights` and `open` have room for a number a split.
template <class Real>
Real merge_flat(const Call& call, const Partials<Real>& parts, MergeWeights how, Real* weights, std::int32_t* open,
                Real* output) {
  constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  const Format softmax = call[Stage::softmax], pv = call[Stage::pv];
  const auto rounded = [](Format format, Real x) { return static_cast<Real>(round_to(format, x)); };
  const auto weight = [&](Index s, Real shift) {
    return power(softmax, Base::e, rounded(softmax, parts.lse[s * parts.lse_step] - shift));
  };
  Real largest = minus_infinity, total = 0;
  for (Index s = 0; s < parts.splits; ++s) largest = std::max(largest, parts.lse[s * parts.lse_step]);
  const Real shift = largest == minus_infinity ? Real{0} : largest;
  Index count = 0;
  for (Index s = 0; s < parts.splits; ++s) {
    if (parts.lse[s * parts.lse_step] == minus_infinity) continue;
    open[count++] = static_cast<std::int32_t>(s);
    const Real w = weight(s, shift);
    total = rounded(softmax, total + w);
    weights[s] = rounded(pv, w);
  }
  if (count == 0) return minus_infinity;
  const Real lse = rounded(softmax, shift + logarithm(softmax, total));
  if (how == MergeWeights::lse)
    for (Index n = 0; n < count; ++n) weights[open[n]] = rounded(pv, weight(open[n], lse));
  std::fill(output, output + padded(call.dv), Real{0});
  add_weighted(pv, weights, open, count, parts.outputs, parts.step, call.dv, output);
  if (how == MergeWeights::normalised) divide_all(pv, total, output, call.dv);
  return lse;
}

// The same, one split after the other joining what is already merged, which is kept in the partial format.
template <class Real>
Real merge_chain(const Call& call, const Partials<Real>& parts, Real* output) {
  constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  const Format softmax = call[Stage::softmax], pv = call[Stage::pv];
  const auto rounded = [](Format format, Real x) { return static_cast<Real>(round_to(format, x)); };
  Real merged = minus_infinity;
  for (Index s = 0; s < parts.splits; ++s) {
    const Real lse = parts.lse[s * parts.lse_step];
    const Real* partial = parts.outputs + s * parts.step;
    if (lse == minus_infinity) continue;
    if (merged == minus_infinity) {
      std::copy_n(partial, padded(call.dv), output);
      merged = lse;
      continue;
    }
    const Real largest = std::max(merged, lse);
    const Real before = power(softmax, Base::e, rounded(softmax, merged - largest));
    const Real joining = power(softmax, Base::e, rounded(softmax, lse - largest));
    const Real total = rounded(softmax, before + joining), weight = rounded(pv, joining);
    constexpr std::int32_t only = 0;
    scale_all(pv, rounded(pv, before), output, call.dv);
    add_weighted(pv, &weight, &only, 1, partial, parts.step, call.dv, output);
    divide_all(pv, total, output, call.dv);
    round_all(call[Stage::partial], output, call.dv);
    merged = rounded(softmax, largest + logarithm(softmax, total));
  }
  return merged;
}

}  // namespace attest::kernels
