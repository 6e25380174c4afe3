#include "engine/recorder.hpp"

#include "core/tensor.hpp"

namespace attest::engine {
namespace {

Layout layout_of(const attest_tensor& tensor) {
  const auto bytes = static_cast<std::uint64_t>(tensor.dtype.bits / 8);
  const auto first = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
  std::int64_t contiguous = 1;
  for (int axis = 3; axis >= 0; --axis) {
    if (tensor.shape[axis] > 1 && tensor.strides[axis] != contiguous)
      return tensor.strides[axis] == 0 ? Layout::broadcast_rows : Layout::slice;
    contiguous *= tensor.shape[axis];
  }
  return first % 64 == bytes % 64 && bytes != 0 ? Layout::odd_base : Layout::bhsd;
}

Index axes_of(const attest_tensor& tensor) {
  Index axes = 0;
  for (int axis = 0; axis < 4; ++axis)
    if (tensor.strides[axis] != 0 || tensor.shape[axis] == 1) axes |= Index{1} << axis;
  return axes;
}

}  // namespace

Problem problem_of(const attest_attention& call) {
  Problem p;
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
  if (attest_present(&call.keep)) {
    p.keep = Keep::half;
    p.keep_axes = axes_of(call.keep);
  }
  if (attest_present(&call.bias)) {
    p.bias = Bias::minus_inf;
    p.bias_axes = axes_of(call.bias);
  }
  if (attest_present(&call.kv_lengths)) p.lengths = Lengths::ragged;
  if (attest_present(&call.lse)) p.lse = call.lse.dtype.bits == 64 ? LseOutput::f64 : LseOutput::f32;
  p.q_layout = layout_of(call.q);
  p.k_layout = layout_of(call.k);
  p.v_layout = layout_of(call.v);
  p.out_layout = layout_of(call.out);
  return p;
}

std::vector<CallResult> Recorder::run(std::span<const attest_attention> calls) {
  for (const attest_attention& call : calls) calls_.push_back(problem_of(call));
  return inner_.run(calls);
}

}  // namespace attest::engine
