// score-shift: a constant added to every score of a row changes no weight.
//
// The bias grows by c, or a bias of c joins a problem without one; c and every shifted bias are exact in the bias's
// format, so that the weights are the same numbers and the log-sum-exp grows by c. The shifted problem has an enclosure
// of its own, since larger scores round more coarsely. Applies unless a softcap follows the bias. Catches maxima that
// start at 0, exponentials without a maximum, and biases that are dropped, scaled or broadcast wrongly.
#include <cmath>

#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

Reason score_shift_not_applicable(const Problem& p, const Contract& contract, const SubjectInfo& info) {
  const Supports& supports = info.supports;
  if (p.b * p.hq * p.lq * p.lk * p.dv == 0) return "no output elements";
  if (!bias_type(supports)) return "the subject takes no bias";
  if (p.softcap > 0 && !contract.softcap_before_bias) return "the softcap comes after the bias";
  if (p.bias == Bias::none && supports.strides != Supports::Strides::any && p.b * p.hq * p.lq * p.lk > most_elements)
    return "too many scores to write out a bias";
  return std::nullopt;
}

// Tells whether x + c is a number of the format, for every finite x of the tensor.
bool exact(const Tensor& bias, double c) {
  const Format format = format_of(bias.dtype());
  bool all = true;
  for_each_stored(bias, [&](Index b, Index h, Index i, Index j) {
    const double x = bias.at(b, h, i, j), sum = x + c;
    if (all && std::isfinite(x)) all = sum - x == c && sum - c == x && round_to(format, sum) == sum;
  });
  return all;
}

// Powers of two, exact in every format: the first one from a drawn place on that leaves the bias exact, or 0.
double shift_of(const Problem& p, const Tensor& bias) {
  constexpr double shifts[] = {1, -128, 32, -8, 128, -1, 8, -32};
  const std::uint64_t first = below(draw(p, 74), std::size(shifts));
  for (std::size_t n = 0; n < std::size(shifts); ++n) {
    const double c = shifts[(first + n) % std::size(shifts)];
    if (!bias.present() || exact(bias, c)) return c;
  }
  return 0;
}

Verdict check_score_shift(Trial& trial) {
  Derived derived = copy_of(trial);
  Problem& p = derived.problem;
  Tensor& bias = derived.inputs.bias;
  const double c = shift_of(p, bias);
  if (c == 0) return Verdict::skip("no shifted bias is exact");
  if (bias.present()) {
    for_each_stored(bias, [&](Index b, Index h, Index i, Index j) { bias.set(b, h, i, j, bias.at(b, h, i, j) + c); });
  } else {
    const Supports& supports = trial.subject().info().supports;
    p.bias_type = *bias_type(supports);
    bias = laid_out(dtype_of(p.bias_format()), Layout::bhsd, {p.b, p.hq, p.lq, p.lk},
                    supports.strides == Supports::Strides::any ? 15u : 0u);
    bias.fill(c);
    p.bias = Bias::zero;
  }
  return agreement(trial, derived, "the same constant added to every score");
}

}  // namespace

Property score_shift() {
  return {"score-shift",
          "f(q, k, v, m) = f(q, k, v, m + c) within both radii, c and m + c exact",
          "a constant added to every score of a row changes nothing but the log-sum-exp",
          Kind::bound,
          score_shift_not_applicable,
          check_score_shift};
}

}  // namespace attest::properties
