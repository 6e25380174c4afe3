// layout: the same logical tensors in another layout give the same result, within hi - lo.
//
// A problem with any strided, shifted or broadcast tensor is run again with everything contiguous; a contiguous one in
// another layout that the subject supports. The mathematical problem is the very same, so both results lie in one
// enclosure; bits may differ, since other loads may mean other loops. Catches ignored strides, swapped axes and
// assumed alignment.
#include <array>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "core/supports.hpp"
#include "properties/compare.hpp"
#include "properties/layout_choice.hpp"
#include "properties/preconditions.hpp"
#include "properties/property.hpp"
#include "properties/transform.hpp"
#include "properties/trial.hpp"

namespace attest::properties {
namespace {

constexpr Index most_mask_elements = Index{1} << 24;  // larger masks keep their layout

bool is_contiguous(const Problem& p) {
  const bool has_mask = p.keep != Keep::none || p.bias != Bias::none;
  return p.q_layout == Layout::bhsd && p.k_layout == Layout::bhsd && p.v_layout == Layout::bhsd &&
         p.out_layout == Layout::bhsd && (!has_mask || p.mask_layout == Layout::bhsd);
}

// Returns the problem with every tensor in one layout. Small masks have it too, and are then written out along every
// axis.
Problem laid(Problem p, Layout layout) {
  p.q_layout = p.k_layout = p.v_layout = p.out_layout = layout;
  if (p.b * p.hq * p.lq * p.lk > most_mask_elements) return p;
  p.mask_layout = layout;
  p.keep_axes = p.bias_axes = 15;
  return p;
}

// Layouts other than plain ones that the subject takes.
std::vector<Layout> other_layouts(const Problem& p, const Supports& supports) {
  std::vector<Layout> layouts;
  const std::array dtypes{p.dtype};
  for (const Layout layout :
       {Layout::odd_base, Layout::bshd, Layout::padded_rows, Layout::spaced, Layout::transposed, Layout::far})
    if (!declined(laid(p, layout), supports, dtypes)) layouts.push_back(layout);
  return layouts;
}

std::string layout_in_words(Layout layout) {
  return "the same values laid out as " +
         std::string(field_of<&Problem::q_layout>().labels[static_cast<std::size_t>(layout)]);
}

Reason layout_not_applicable(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  if (is_contiguous(p) && other_layouts(p, info.supports).empty()) return "the subject takes one layout";
  return std::nullopt;
}

Verdict check_layout(Trial& trial) {
  const Problem& p = trial.problem();
  const Layout target = other_layout(p, trial.subject().info().supports);
  const Problem moved = laid(p, target);
  Inputs inputs = trial.inputs().clone();
  inputs.q = relaid(inputs.q, target);
  inputs.k = relaid(inputs.k, target);
  inputs.v = relaid(inputs.v, target);
  if (p.b * p.hq * p.lq * p.lk <= most_mask_elements) {
    inputs.keep = relaid(inputs.keep, target);
    inputs.bias = relaid(inputs.bias, target);
  }
  trial.base();
  const Result result = trial.run(inputs, moved);
  if (result.violation) return Verdict::fail(*result.violation);
  return within_enclosures(trial, result.out, result.lse,
                           target == Layout::bhsd ? "the same values contiguous" : layout_in_words(target));
}

}  // namespace

Layout other_layout(const Problem& p, const Supports& supports) {
  if (!is_contiguous(p)) return Layout::bhsd;
  const std::vector<Layout> layouts = other_layouts(p, supports);
  return layouts.empty() ? Layout::bhsd : layouts[below(draw(p, 41), layouts.size())];
}

Property layout() {
  return {"layout",
          "|f(x) - f(x')| <= hi - lo, x' = x in another memory layout",
          "strides, base addresses and broadcast axes change nothing beyond rounding",
          Kind::bound,
          layout_not_applicable,
          check_layout,
          Asks::anything,
          Claim::pair};
}

}  // namespace attest::properties
