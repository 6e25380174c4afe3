// The law block-layout: the same problem, its tensors laid out otherwise.
#include <algorithm>
#include <array>

#include "core/rng.hpp"
#include "ops/mha/parts.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Inputs;
using attest::mha::Layout;

bool is_contiguous(const Problem& p) {
  return p.x_layout == Layout::contiguous && p.memory_layout == Layout::contiguous &&
         p.weight_layout == Layout::contiguous && p.out_layout == Layout::contiguous;
}

// Weights have layouts of matrices alone.
Problem laid(Problem p, Layout layout) {
  p.x_layout = p.out_layout = layout;
  p.memory_layout = p.self ? Layout::contiguous : layout;
  const bool of_matrices = static_cast<std::size_t>(layout) < attest::mha::matrix_layout_count;
  p.weight_layout = of_matrices ? layout : Layout::contiguous;
  return p;
}

void copy_tokens(const Tensor& from, Tensor& to) {
  if (!from.present()) return;
  const auto n = from.shape();
  for (Index b = 0; b < n[0]; ++b)
    for (Index i = 0; i < n[1]; ++i)
      for (Index c = 0; c < n[2]; ++c) to.set(b, i, c, 0, from.at(b, i, c));
}

}  // namespace

std::optional<Problem> in_another_layout(const Problem& problem, const Supports& supports) {
  const std::array dtypes{problem.dtype};
  const auto taken = [&](Layout layout) { return !attest::mha::declined(laid(problem, layout), supports, dtypes); };
  if (!is_contiguous(problem))
    return taken(Layout::contiguous) ? std::optional(laid(problem, Layout::contiguous)) : std::nullopt;
  std::vector<Layout> layouts;
  for (const Layout layout :
       {Layout::odd_base, Layout::padded_rows, Layout::spaced, Layout::transposed, Layout::slice, Layout::tokens_first})
    if (taken(layout)) layouts.push_back(layout);
  if (layouts.empty()) return std::nullopt;
  constexpr std::uint64_t stream = 41;
  return laid(problem, layouts[below(extend(mix(problem.seed), stream), layouts.size())]);
}

Inputs laid_as(const Problem& problem, const Inputs& inputs) {
  Inputs moved = materialise(problem);
  // Tokens that every sample shared are other numbers where each has its own.
  copy_tokens(inputs.x, moved.x);
  copy_tokens(inputs.memory, moved.memory);
  return moved;
}

std::string layout_in_words(const Problem& moved) {
  if (is_contiguous(moved)) return "the same values contiguous";
  const Field* field = attest::mha::find_field("x_layout");
  return "the same values laid out as " + std::string(field->labels[static_cast<std::size_t>(moved.x_layout)]);
}

}  // namespace attest::ops::of_mha
