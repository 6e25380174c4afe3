#include "ops/attention/parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/inputs.hpp"
#include "core/tensor.hpp"

namespace attest::ops::of_attention {
namespace {

// Numbers of a call that a problem is asked to tell: for each failure of a campaign, and for each call asked at its
// end.
constexpr std::int64_t most_numbers = 4096, most_numbers_asked = 3 << 19;

// The extents of the numbers that a problem tells: of a mask, those that lie in memory, since its axes say the rest.
std::array<Index, 4> told(const attest_tensor& tensor, Edit::Tensor which) {
  std::array<Index, 4> n{1, 1, 1, 1};
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(tensor.ndim); ++axis)
    n[axis] = which > Edit::Tensor::v && tensor.strides[axis] == 0 ? std::min<Index>(tensor.shape[axis], 1)
                                                                   : tensor.shape[axis];
  return n;
}

std::int64_t numbers_in(const attest_tensor& tensor, Edit::Tensor which) {
  if (!attest_present(&tensor)) return 0;
  const auto n = told(tensor, which);
  return n[0] * n[1] * n[2] * n[3];
}

// The first that has these strides, of those that differ for this shape, where it varies along `axes` alone; `slice`
// stands for any other gaps.
Layout layout_of(const attest_tensor& tensor, Index axes = 15) {
  const std::array<Index, 4> shape{tensor.shape[0], tensor.shape[1], tensor.shape[2], tensor.shape[3]};
  const auto lies_as = [&](Layout layout) {
    const Placement placement = place(layout, shape, ~static_cast<unsigned>(axes) & 15u);
    for (std::size_t axis = 0; axis < 4; ++axis)
      if (shape[axis] > 1 && tensor.strides[axis] != placement.strides[axis]) return false;
    return true;
  };
  const auto bytes = static_cast<std::uint64_t>(tensor.dtype.bits / 8);
  const auto first = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
  if (lies_as(Layout::bhsd)) return first % 64 == bytes % 64 && bytes != 0 ? Layout::odd_base : Layout::bhsd;
  for (std::size_t layout = 0; layout < layout_count; ++layout)
    if (lies_as(static_cast<Layout>(layout))) return static_cast<Layout>(layout);
  return Layout::slice;
}

Index axes_of(const attest_tensor& tensor) {
  Index axes = 0;
  for (int axis = 0; axis < 4; ++axis)
    if (tensor.strides[axis] != 0 || tensor.shape[axis] == 1) axes |= Index{1} << axis;
  return axes;
}

// Every number of it, set by hand.
void tell(const attest_tensor& tensor, Edit::Tensor which, std::vector<Edit>& edits) {
  const std::array<Index, 4> n = told(tensor, which);
  std::array<Index, 4> at{};
  for (at[0] = 0; at[0] < n[0]; ++at[0])
    for (at[1] = 0; at[1] < n[1]; ++at[1])
      for (at[2] = 0; at[2] < n[2]; ++at[2])
        for (at[3] = 0; at[3] < n[3]; ++at[3]) edits.push_back({which, at, load(tensor, at[0], at[1], at[2], at[3])});
}

bool excludes(const attest_tensor& bias) {
  std::vector<Edit> numbers;
  tell(bias, Edit::Tensor::bias, numbers);
  return std::ranges::any_of(numbers, [](const Edit& number) { return number.value == -INFINITY; });
}

BiasType bias_type_of(const attest_attention& call) {
  const auto type = dtype_of(call.bias.dtype), of_q = dtype_of(call.q.dtype);
  Problem problem;
  if (of_q) problem.dtype = format_of(*of_q);
  for (std::size_t n = 0; type && n < bias_type_count; ++n) {
    problem.bias_type = static_cast<BiasType>(n);
    if (problem.bias_format() == format_of(*type)) break;
  }
  return problem.bias_type;
}

}  // namespace

std::optional<Problem> recorded(const attest_attention& call, const Problem* like, bool values) {
  const std::pair<const attest_tensor&, Edit::Tensor> inputs[] = {
      {call.q, Edit::Tensor::q},       {call.k, Edit::Tensor::k},       {call.v, Edit::Tensor::v},
      {call.bias, Edit::Tensor::bias}, {call.keep, Edit::Tensor::keep}, {call.kv_lengths, Edit::Tensor::kv_lengths}};
  const auto is_told = [values](Edit::Tensor which) { return values || which > Edit::Tensor::v; };
  std::int64_t numbers = 0;
  for (const auto& [tensor, which] : inputs) numbers += is_told(which) ? numbers_in(tensor, which) : 0;
  if (numbers > (like ? most_numbers : most_numbers_asked)) return std::nullopt;
  Problem p;
  if (like) {
    p.values = like->values;
    p.values_file = like->values_file;
    p.amplitude = like->amplitude;
    p.q_form = like->q_form;
    p.k_form = like->k_form;
    p.v_form = like->v_form;
    p.seed = like->seed;
  }
  p.b = call.q.shape[0];
  p.hq = call.q.shape[1];
  p.lq = call.q.shape[2];
  p.d = call.q.shape[3];
  p.hkv = call.k.shape[1];
  p.lk = call.k.shape[2];
  p.dv = call.v.shape[3];
  if (const auto dtype = dtype_of(call.q.dtype)) p.dtype = format_of(*dtype);
  if (!(call.flags & ATTEST_SCALE_IS_DEFAULT)) p.scale = call.scale;
  p.softcap = call.softcap;
  p.causal = call.causal != 0;
  p.align = call.align == ATTEST_TOP_LEFT ? Align::top_left : Align::bottom_right;
  p.window_left = call.window_left;
  p.window_right = call.window_right;
  p.threads = call.threads;
  if (call.form != nullptr) p.forms = forms_from_json_text(call.form);
  if (attest_present(&call.keep)) {
    p.keep = like && like->keep != Keep::none ? like->keep : Keep::half;
    p.keep_axes = axes_of(call.keep);
    p.mask_layout = layout_of(call.keep, p.keep_axes);
  }
  if (attest_present(&call.bias)) {
    p.bias = like && like->bias != Bias::none ? like->bias : excludes(call.bias) ? Bias::minus_inf : Bias::normal;
    p.bias_axes = axes_of(call.bias);
    p.bias_type = like ? like->bias_type : bias_type_of(call);
    p.mask_layout = layout_of(call.bias, p.bias_axes);
  }
  if (attest_present(&call.kv_lengths))
    p.lengths = like && like->lengths != Lengths::none ? like->lengths : Lengths::ragged;
  if (attest_present(&call.lse)) p.lse = call.lse.dtype.bits == 64 ? LseOutput::f64 : LseOutput::f32;
  p.q_layout = layout_of(call.q);
  p.k_layout = layout_of(call.k);
  p.v_layout = layout_of(call.v);
  p.out_layout = layout_of(call.out);
  for (const auto& [tensor, which] : inputs)
    if (attest_present(&tensor) && is_told(which)) tell(tensor, which, p.edits);
  return p;
}

}  // namespace attest::ops::of_attention
