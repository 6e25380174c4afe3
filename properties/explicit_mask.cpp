// window-mask, length-mask: keys closed by position are closed as by a keep mask.
//
// Causality and windows, or key lengths, are written out as a keep mask of ones and zeros: the very same keys for each
// row. Key lengths also place the diagonal of bottom_right, so that length-mask writes out both there. Catches masks
// that are off by one, measured from the wrong corner, ignored, or right in one form alone.
#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

Reason no_window(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (!has_diagonal(p)) return "neither causal nor a window";
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  return no_explicit_mask(p, info);
}

Reason no_lengths(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (p.lengths == Lengths::none) return "no key lengths";
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  return no_explicit_mask(p, info);
}

// The same keys, lengths and promises: one enclosure for both results.
Verdict check_window(Trial& trial) {
  trial.base();
  const Derived derived = with_explicit_mask(trial, Said::diagonal);
  const Result result = trial.run(derived.inputs, derived.problem);
  if (result.violation) return Verdict::fail(*result.violation);
  return within_enclosures(trial, result.out, result.lse, "the window as a keep mask");
}

// Without lengths, what is promised about keys beyond them and the mean of an empty row are other things.
Verdict check_lengths(Trial& trial) {
  return agreement(trial, with_explicit_mask(trial, Said::diagonal_and_lengths), "the key lengths as a keep mask");
}

}  // namespace

Property window_mask() {
  return {"window-mask",
          "|f(x) - f(x')| <= hi - lo, x' = x with causality and windows written out as a keep mask",
          "causality and windows close the keys that an equal mask closes",
          Kind::bound,
          no_window,
          check_window,
          Asks::anything,
          Claim::pair};
}

Property length_mask() {
  return {"length-mask",
          "f(x) = f(x') within both radii, x' = x with key lengths written out as a keep mask",
          "key lengths close the keys that an equal mask closes",
          Kind::bound,
          no_lengths,
          check_lengths,
          Asks::anything,
          Claim::pair};
}

}  // namespace attest::properties
