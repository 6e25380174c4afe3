#include "properties/derive.hpp"

#include <algorithm>

#include "core/inputs.hpp"

namespace attest::properties {

Derived copy_of(const Trial& trial) { return {trial.problem(), trial.inputs().clone()}; }

unsigned shared_axes(const Tensor& tensor) noexcept {
  unsigned shared = 0;
  for (std::size_t axis = 0; axis < tensor.strides().size(); ++axis)
    if (tensor.strides()[axis] == 0) shared |= 1u << axis;
  return shared;
}

Tensor laid_out(DType type, Layout layout, const std::array<Index, 4>& shape, unsigned shared) {
  const Placement placement = place(layout, shape, shared);
  return Tensor(type, shape, placement.strides, placement.base_offset);
}

std::optional<BiasType> bias_type(const Supports& supports) noexcept {
  for (std::size_t type = 0; supports.bias && type < bias_type_count; ++type)
    if (supports.bias_types[type]) return static_cast<BiasType>(type);
  return std::nullopt;
}

Reason no_explicit_mask(const Problem& p, const SubjectInfo& info) {
  if (!info.supports.keep) return "the subject takes no keep mask";
  if (p.b * p.hq * p.lq * p.lk > most_elements) return "too many scores to write out a mask";
  return std::nullopt;
}

Derived with_explicit_mask(const Trial& trial, Said said) {
  Derived derived = copy_of(trial);
  const Inputs& from = trial.inputs();
  Problem& p = derived.problem;
  const bool diagonal = has_diagonal(p), bottom_right = from.align == Align::bottom_right;
  const bool lengths = from.kv_lengths.present(), writes_lengths = lengths && said == Said::diagonal_and_lengths;
  const auto length = [&](Index b) { return lengths ? static_cast<Index>(from.kv_lengths.at(b)) : p.lk; };
  const auto open = [&](Index b, Index h, Index i, Index j) {
    if (from.keep.present() && from.keep.at(b, h, i, j) == 0) return false;
    if (writes_lengths && j >= length(b)) return false;
    const Index g = bottom_right ? i + length(b) - p.lq : i;
    return (!from.causal || j <= g) && (from.window_left < 0 || g - j <= from.window_left) &&
           (from.window_right < 0 || j - g <= from.window_right);
  };

  // Shared along the axes on which nothing depends, where the subject takes strides of 0.
  unsigned shared = from.keep.present() ? shared_axes(from.keep) : 15u;
  if (diagonal) shared &= ~(4u | 8u);
  if (writes_lengths) shared &= ~(1u | 8u);
  if (diagonal && bottom_right && lengths) shared &= ~1u;
  if (trial.subject().info().supports.strides != Supports::Strides::any) shared = 0;
  derived.inputs.keep = laid_out(DType::boolean, p.mask_layout, {p.b, p.hq, p.lq, p.lk}, shared);
  Tensor& keep = derived.inputs.keep;
  for_each_stored(keep, [&](Index b, Index h, Index i, Index j) { keep.set(b, h, i, j, open(b, h, i, j) ? 1 : 0); });

  derived.inputs.causal = p.causal = false;
  derived.inputs.window_left = derived.inputs.window_right = p.window_left = p.window_right = -1;
  if (writes_lengths) {
    derived.inputs.kv_lengths = {};
    p.lengths = Lengths::none;
  }
  if (p.keep == Keep::none) p.keep = Keep::open;
  p.keep_axes = static_cast<Index>(15 & ~shared);
  return derived;
}

Verdict own_judgement(Trial& trial, const Derived& derived, std::string_view note) {
  trial.base();
  const Result result = trial.run(derived.inputs, derived.problem);
  if (result.violation) return Verdict::fail(*result.violation);
  const auto oracle = oracle::make_oracle(trial.contract(), derived.problem, derived.inputs);
  return noted(oracle->judge(result.out, result.lse), note);
}

Verdict agreement(Trial& trial, const Derived& derived, std::string_view note, const ToBase& to_base) {
  trial.base();
  const Result result = trial.run(derived.inputs, derived.problem);
  if (result.violation) return Verdict::fail(*result.violation);
  const auto oracle = oracle::make_oracle(trial.contract(), derived.problem, derived.inputs);
  Verdict verdict = oracle->judge(result.out, result.lse);
  if (trial.judgement().kind != VerdictKind::fail) {
    // The evidence speaks of the trial's own problem: there the shrinker looks for what is at fault.
    if (verdict.evidence && to_base) verdict.evidence->index = to_base(verdict.evidence->index);
    return noted(std::move(verdict), note);
  }
  if (auto evidence = first_departure(trial, {derived.problem, result.out, result.lse, *oracle, note}, to_base))
    return Verdict::fail(std::move(*evidence), verdict.counts);
  return Verdict::pass(verdict.counts);
}

}  // namespace attest::properties
