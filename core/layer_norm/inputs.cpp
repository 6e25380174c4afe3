#include "core/layer_norm/inputs.hpp"

#include <algorithm>

#include "core/inputs.hpp"
#include "core/layer_norm/values.hpp"

namespace attest::layer_norm {
namespace {

attest::Layout as_matrix(Layout layout) noexcept {
  switch (layout) {
    case Layout::contiguous:
      return attest::Layout::bhsd;
    case Layout::padded_rows:
      return attest::Layout::padded_rows;
    case Layout::odd_base:
      return attest::Layout::odd_base;
    case Layout::spaced:
      return attest::Layout::spaced;
    case Layout::transposed:
      return attest::Layout::transposed;
    case Layout::slice:
      return attest::Layout::slice;
    case Layout::far:
      return attest::Layout::far;
    case Layout::broadcast:
      return attest::Layout::broadcast_rows;
  }
  return attest::Layout::bhsd;
}

Tensor matrix_of(const Problem& problem, Layout layout) {
  const Placement placement = place(as_matrix(layout), {1, 1, problem.rows, problem.hidden});
  const Index shape[] = {problem.rows, problem.hidden}, strides[] = {placement.strides[2], placement.strides[3]};
  return {dtype_of(problem.dtype), shape, strides, placement.base_offset};
}

// gamma and beta: what a layout of matrices means for one row.
Tensor row_of(const Problem& problem) {
  const Layout layout = problem.param_layout;
  const Index shape[] = {problem.hidden};
  const Index strides[] = {layout == Layout::broadcast ? 0 : layout == Layout::spaced ? 2 : 1};
  return {dtype_of(problem.param_format()), shape, strides, layout == Layout::odd_base ? Index{1} : Index{0}};
}

Tensor drawn_matrix(const Problem& problem, Edit::Tensor which, Layout layout) {
  Tensor tensor = matrix_of(problem, layout);
  std::vector<double> row(static_cast<std::size_t>(problem.hidden));
  const Index rows = layout == Layout::broadcast ? std::min<Index>(problem.rows, 1) : problem.rows;
  for (Index r = 0; r < rows; ++r) {
    draw_row(problem, which, problem.rows0 + r, row);
    for (Index i = 0; i < problem.hidden; ++i) tensor.set(r, i, 0, 0, row[static_cast<std::size_t>(i)]);
  }
  return tensor;
}

Tensor drawn_row(const Problem& problem, Edit::Tensor which) {
  Tensor tensor = row_of(problem);
  std::vector<double> row(static_cast<std::size_t>(problem.hidden));
  draw_row(problem, which, 0, row);
  const Index columns = problem.param_layout == Layout::broadcast ? 1 : problem.hidden;
  for (Index i = 0; i < columns; ++i) tensor.set(i, 0, 0, 0, row[static_cast<std::size_t>(i)]);
  return tensor;
}

}  // namespace

Inputs materialise(const Problem& problem) {
  validate(problem);
  Inputs inputs;
  inputs.x = drawn_matrix(problem, Edit::Tensor::x, problem.x_layout);
  if (problem.residual != Residual::none)
    inputs.residual = drawn_matrix(problem, Edit::Tensor::residual, problem.residual_layout);
  if (problem.gamma != Weights::none) inputs.gamma = drawn_row(problem, Edit::Tensor::gamma);
  if (problem.beta != Weights::none) inputs.beta = drawn_row(problem, Edit::Tensor::beta);
  for (const Edit& edit : problem.edits) {
    if (edit.tensor == Edit::Tensor::x) inputs.x.set(edit.row, edit.column, 0, 0, edit.value);
    if (edit.tensor == Edit::Tensor::residual) inputs.residual.set(edit.row, edit.column, 0, 0, edit.value);
    if (edit.tensor == Edit::Tensor::gamma) inputs.gamma.set(edit.column, 0, 0, 0, edit.value);
    if (edit.tensor == Edit::Tensor::beta) inputs.beta.set(edit.column, 0, 0, 0, edit.value);
  }
  inputs.epsilon = problem.epsilon;
  inputs.norm = problem.norm;
  inputs.threads = problem.threads;
  return inputs;
}

Tensor make_out(const Problem& problem, std::uint64_t fence) {
  Tensor out = matrix_of(problem, problem.out_layout);
  out.poison(fence);
  return out;
}

Tensor make_sum_out(const Problem& problem, std::uint64_t fence) {
  return problem.sum_out ? make_out(problem, fence) : Tensor();
}

std::vector<Index> judged_rows(const Problem& problem) {
  return drawn(problem.judged == 0 ? problem.rows : problem.judged, problem.rows, problem.seed);
}

attest_layer_norm Inputs::call(const Tensor& out, const Tensor& sum_out) const noexcept {
  attest_layer_norm call{};
  call.struct_size = sizeof call;
  call.x = x.view();
  call.residual = residual.view();
  call.gamma = gamma.view();
  call.beta = beta.view();
  call.out = out.view();
  call.sum_out = sum_out.view();
  call.epsilon = epsilon;
  call.rms = norm == Norm::rms;
  call.threads = static_cast<std::int32_t>(threads);
  return call;
}

Inputs Inputs::clone() const {
  Inputs copy;
  copy.x = x.clone();
  copy.residual = residual.clone();
  copy.gamma = gamma.clone();
  copy.beta = beta.clone();
  copy.epsilon = epsilon;
  copy.norm = norm;
  copy.threads = threads;
  return copy;
}

}  // namespace attest::layer_norm
