// pad-width: coordinates of zeros appended to Q and K change no score.
//
// The scale stays as it is, and is given where it was the default of the former width. A subject that wants Dv = D gets
// columns of V repeated, whose outputs repeat. Catches loops over the width that leave out or add a remainder, and a
// scale that follows the width although another was given.
#include <vector>

#include "core/supports.hpp"
#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

// The problem with rows of d elements, at the scale that it had.
Problem widened(Problem p, Index d, const Supports& supports) {
  p.scale = p.effective_scale();
  p.d = d;
  if (supports.dv_equals_d) p.dv = d;
  return p;
}

std::vector<Index> wider(const Problem& p, const SubjectInfo& info) {
  std::vector<Index> widths;
  for (const Index d : {p.d + 1, p.d + 3, p.d / 8 * 8 + 8, 2 * p.d}) {
    const bool fits = d > p.d && d <= widest && p.b * (p.hq * p.lq + 2 * p.hkv * p.lk) * d <= most_elements;
    if (fits && !declined(widened(p, d, info.supports), info.supports, info.dtypes)) widths.push_back(d);
  }
  return widths;
}

Reason pad_width_not_applicable(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  if (info.supports.scale == Supports::Scale::only_default) return "the subject takes the default scale alone";
  if (wider(p, info).empty()) return "no wider shape that the subject takes";
  return std::nullopt;
}

Tensor with_zeros(const Tensor& tensor, Layout layout, Index width) {
  const auto n = tensor.shape();
  Tensor made = laid_out(tensor.dtype(), layout, {n[0], n[1], n[2], width}, shared_axes(tensor));
  made.fill(0);
  const attest_tensor from = tensor.view(), to = made.view();
  const Index count = std::min(n[3], stored_extents(made)[3]);
  for_each_row(made, [&](Index b, Index h, Index i) { copy_row(from, {b, h, i, 0}, to, {b, h, i, 0}, count); });
  return made;
}

Verdict check_pad_width(Trial& trial) {
  Derived derived = copy_of(trial);
  Problem& p = derived.problem;
  const Supports& supports = trial.subject().info().supports;
  const std::vector<Index> widths = wider(p, trial.subject().info());
  const Index d = widths[below(draw(p, 76), widths.size())], dv = p.dv;
  const auto repeated = [=](std::array<Index, 4> at) {
    at[3] %= dv;
    return at;
  };
  Inputs& inputs = derived.inputs;
  inputs.q = with_zeros(inputs.q, p.q_layout, d);
  inputs.k = with_zeros(inputs.k, p.k_layout, d);
  if (supports.dv_equals_d) inputs.v = picked(inputs.v, p.v_layout, {p.b, p.hkv, p.lk, d}, repeated);
  inputs.scale_is_default = false;
  p = widened(p, d, supports);
  return agreement(trial, derived, "q and k wider by zeros", repeated);
}

}  // namespace

Property pad_width() {
  return {"pad-width",
          "f(q, k, v) = f([q 0], [k 0], v) within both radii, at the same scale",
          "coordinates of zeros appended to q and k change nothing",
          Kind::bound,
          pad_width_not_applicable,
          check_pad_width};
}

}  // namespace attest::properties
