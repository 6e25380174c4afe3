#include "core/mha/inputs.hpp"

#include <array>
#include <limits>
#include <span>

#include "core/mha/weights.hpp"
#include "core/rng.hpp"

namespace attest::mha {
namespace {

attest::Layout as_attention(Layout layout) noexcept {
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
    case Layout::tokens_first:
      return attest::Layout::bshd;
    case Layout::far:
      return attest::Layout::far;
    case Layout::broadcast:
      return attest::Layout::broadcast_heads;
  }
  return attest::Layout::bhsd;
}

// An unwritten tensor of samples, tokens and elements: samples lie as heads do.
Tensor tokens_in(Layout layout, DType type, std::array<Index, 3> shape) {
  const Placement placement = place(as_attention(layout), {1, shape[0], shape[1], shape[2]});
  return {type, shape, std::span(placement.strides).last(3), placement.base_offset};
}
Tensor tokens_of(Layout layout, DType type, std::array<Index, 3> shape, const std::vector<double>& values) {
  Tensor tensor = tokens_in(layout, type, shape);
  const Index samples = layout == Layout::broadcast ? std::min<Index>(shape[0], 1) : shape[0];
  std::size_t n = 0;
  for (Index b = 0; b < samples; ++b)
    for (Index i = 0; i < shape[1]; ++i)
      for (Index c = 0; c < shape[2]; ++c) tensor.set(b, i, c, 0, values[n++]);
  return tensor;
}
Tensor matrix_of(Layout layout, DType type, Index rows, Index columns, const std::vector<double>& values) {
  const Placement placement = place(as_attention(layout), {1, 1, rows, columns});
  Tensor tensor(type, std::array{rows, columns}, std::span(placement.strides).last(2), placement.base_offset);
  std::size_t n = 0;
  for (Index i = 0; i < rows; ++i)
    for (Index c = 0; c < columns; ++c) tensor.set(i, c, 0, 0, values[n++]);
  return tensor;
}
// Returns one row in a layout of matrices.
Tensor row_of(Layout layout, DType type, const std::vector<double>& values) {
  const std::array shape{static_cast<Index>(values.size())}, strides{layout == Layout::spaced ? Index{2} : Index{1}};
  Tensor tensor(type, shape, strides, layout == Layout::odd_base ? Index{1} : Index{0});
  for (std::size_t n = 0; n < values.size(); ++n) tensor.set(static_cast<Index>(n), 0, 0, 0, values[n]);
  return tensor;
}

std::vector<double> joined(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v) {
  std::vector<double> all(q);
  all.insert(all.end(), k.begin(), k.end());
  all.insert(all.end(), v.begin(), v.end());
  return all;
}

// The rows of a tensor from `first` on that `shape` says.
attest_tensor rows_of(attest_tensor view, Index first, const std::int64_t* shape) {
  if (!attest_present(&view)) return {};
  view.shape = const_cast<std::int64_t*>(shape);  // a view may not write what the plug-in's struct could
  view.byte_offset += static_cast<std::uint64_t>(first * view.strides[0] * (view.dtype.bits / 8));
  return view;
}

void make_masks(const Problem& p, Inputs& inputs) {
  const auto drawn = [&](Index b, Index h, Index i, Index j) {
    std::uint64_t key = mix(p.seed ^ 0x6d61736bu);
    for (const Index n : {b, h, i, j}) key = extend(key, static_cast<std::uint64_t>(n));
    return key;
  };
  const Index b0 = p.b0, l0 = p.l0, m0 = p.self ? p.l0 : p.m0;
  if (p.has_lengths()) {
    inputs.kv_lengths = Tensor(DType::i32, std::array{p.b});
    for (Index b = 0; b < p.b; ++b) {
      const bool empty = p.padding == Padding::some_zero && (drawn(b0 + b, -1, 0, 0) & 1) != 0;
      const auto length = 1 + static_cast<Index>(below(drawn(b0 + b, 0, 0, 0), static_cast<std::uint64_t>(p.m)));
      inputs.kv_lengths.set(b, 0, 0, 0, empty ? 0 : static_cast<double>(length));
    }
  }
  if (p.has_keep()) {
    const bool rows = p.padding == Padding::rows;
    const std::array<Index, 4> shape{p.b, p.heads, p.l, p.m};
    const std::array<Index, 4> strides{rows ? p.heads * p.l * p.m : p.m, rows ? p.l * p.m : 0, rows ? p.m : 0, 1};
    inputs.keep = Tensor(DType::boolean, shape, strides);
    for (Index b = 0; b < p.b; ++b)
      for (Index h = 0; h < (rows ? p.heads : 1); ++h)
        for (Index i = 0; i < (rows ? p.l : 1); ++i)
          for (Index j = 0; j < p.m; ++j)
            inputs.keep.set(b, h, i, j, below(drawn(b0 + b, h, l0 + i, m0 + j), 4) < (rows ? 2 : 3) ? 1 : 0);
  }
  if (p.bias != Bias::none) {
    const bool own = p.bias == Bias::normal;
    const std::array<Index, 4> shape{p.b, p.heads, p.l, p.m};
    const std::array<Index, 4> strides{own ? p.heads * p.l * p.m : 0, own ? p.l * p.m : 0, p.m, 1};
    inputs.bias = Tensor(dtype_of(p.dtype), shape, strides);
    for (Index b = 0; b < (own ? p.b : 1); ++b)
      for (Index h = 0; h < (own ? p.heads : 1); ++h)
        for (Index i = 0; i < p.l; ++i)
          for (Index j = 0; j < p.m; ++j) {
            const std::uint64_t bits = mix(drawn(own ? b0 + b : 0, h, l0 + i, m0 + j));
            const bool closed = p.bias == Bias::minus_inf && below(bits, 4) == 0;
            const double value = p.bias == Bias::minus_inf ? 0 : normal(bits);
            inputs.bias.set(b, h, i, j, closed ? -std::numeric_limits<double>::infinity() : value);
          }
  }
}

void apply(const Edit& edit, const Inputs& inputs) {
  const Tensor none;
  const Call call = inputs.call(none);
  const attest_tensor* const tensors[edit_tensor_count] = {
      &call.x,   &call.memory, &call.w_q,   &call.w_k,  &call.w_v,  &call.w_out,     &call.b_q,
      &call.b_k, &call.b_v,    &call.b_out, &call.bias, &call.keep, &call.kv_lengths};
  store(*tensors[static_cast<std::size_t>(edit.tensor)], edit.index[0], edit.index[1], edit.index[2], edit.index[3],
        edit.value);
}

}  // namespace

Inputs materialise(const Problem& p) {
  validate(p);
  const Values v = draw_values(p);
  const DType type = dtype_of(p.dtype);
  Inputs inputs;
  inputs.problem = p;
  inputs.q_shape_ = {p.q_width(), p.e};
  inputs.kv_shape_ = {p.kv_width(), p.e};
  inputs.x = tokens_of(p.x_layout, type, {p.b, p.l, p.e}, v.x);
  if (!p.self) inputs.memory = tokens_of(p.memory_layout, type, {p.b, p.m, p.e}, v.memory);
  const Index q = p.q_width(), kv = p.kv_width();
  const auto matrix = [&](Index rows, Index columns, const std::vector<double>& values) {
    return matrix_of(p.weight_layout, type, rows, columns, values);
  };
  const auto row = [&](const std::vector<double>& values) { return row_of(p.weight_layout, type, values); };
  if (p.packed) {
    inputs.w_q = matrix(q + 2 * kv, p.e, joined(v.w_q, v.w_k, v.w_v));
    if (p.has_in_biases()) inputs.b_q = row(joined(v.b_q, v.b_k, v.b_v));
  } else {
    inputs.w_q = matrix(q, p.e, v.w_q);
    inputs.w_k = matrix(kv, p.e, v.w_k);
    inputs.w_v = matrix(kv, p.e, v.w_v);
    if (p.has_in_biases()) {
      inputs.b_q = row(v.b_q);
      inputs.b_k = row(v.b_k);
      inputs.b_v = row(v.b_v);
    }
  }
  inputs.w_out = matrix(p.e, q, v.w_out);
  if (p.has_out_bias()) inputs.b_out = row(v.b_out);
  make_masks(p, inputs);
  for (const Edit& edit : p.edits) apply(edit, inputs);
  return inputs;
}

std::vector<attest::Inputs::Named> Inputs::named() const {
  std::vector<attest::Inputs::Named> all;
  for (const auto& [name, tensor] : {std::pair{"x", &x},
                                     {"memory", &memory},
                                     {"w_q", &w_q},
                                     {"w_k", &w_k},
                                     {"w_v", &w_v},
                                     {"w_out", &w_out},
                                     {"b_q", &b_q},
                                     {"b_k", &b_k},
                                     {"b_v", &b_v},
                                     {"b_out", &b_out},
                                     {"bias", &bias},
                                     {"keep", &keep},
                                     {"kv_lengths", &kv_lengths}})
    if (tensor->present()) all.push_back({name, *tensor});
  return all;
}

Tensor make_out(const Problem& p, std::uint64_t fence) {
  Tensor out = tokens_in(p.out_layout, dtype_of(p.dtype), {p.b, p.l, p.e});
  out.poison(fence);
  return out;
}

StageOutputs make_stages(const Problem& p, DType type) {
  StageOutputs stages{Tensor(type, std::array{p.b, p.heads, p.l, p.head_dim}),
                      Tensor(type, std::array{p.b, p.kv_heads, p.m, p.head_dim}),
                      Tensor(type, std::array{p.b, p.kv_heads, p.m, p.head_dim}),
                      Tensor(type, std::array{p.b, p.l, p.q_width()})};
  for (Tensor* stage : {&stages.q, &stages.k, &stages.v, &stages.heads}) stage->poison();
  return stages;
}

Call Inputs::call(const Tensor& out) const noexcept {
  Call call{};
  call.x = x.view();
  call.memory = problem.self ? call.x : memory.view();
  call.w_out = w_out.view();
  call.b_out = b_out.view();
  call.bias = bias.view();
  call.keep = keep.view();
  call.kv_lengths = kv_lengths.view();
  call.out = out.view();
  call.heads = problem.heads;
  call.kv_heads = problem.kv_heads;
  call.head_dim = problem.head_dim;
  call.causal = problem.causal;
  call.align = problem.align;
  call.scale = problem.effective_scale();
  call.scale_is_default = !problem.scale;
  call.threads = problem.threads;
  if (problem.packed) {
    const Index q = problem.q_width(), kv = problem.kv_width();
    call.w_q = rows_of(w_q.view(), 0, q_shape_.data());
    call.w_k = rows_of(w_q.view(), q, kv_shape_.data());
    call.w_v = rows_of(w_q.view(), q + kv, kv_shape_.data());
    call.b_q = rows_of(b_q.view(), 0, q_shape_.data());
    call.b_k = rows_of(b_q.view(), q, kv_shape_.data());
    call.b_v = rows_of(b_q.view(), q + kv, kv_shape_.data());
  } else {
    call.w_q = w_q.view();
    call.w_k = w_k.view();
    call.w_v = w_v.view();
    call.b_q = b_q.view();
    call.b_k = b_k.view();
    call.b_v = b_v.view();
  }
  return call;
}

Inputs Inputs::clone() const {
  Inputs copy;
  copy.problem = problem;
  copy.q_shape_ = q_shape_;
  copy.kv_shape_ = kv_shape_;
  const auto copied = [](const Tensor& tensor) { return tensor.present() ? tensor.clone() : Tensor(); };
  copy.x = copied(x);
  copy.memory = copied(memory);
  copy.w_q = copied(w_q);
  copy.w_k = copied(w_k);
  copy.w_v = copied(w_v);
  copy.w_out = copied(w_out);
  copy.b_q = copied(b_q);
  copy.b_k = copied(b_k);
  copy.b_v = copied(b_v);
  copy.b_out = copied(b_out);
  copy.bias = copied(bias);
  copy.keep = copied(keep);
  copy.kv_lengths = copied(kv_lengths);
  return copy;
}

attest::Problem attention_of(const Call& call, Format storage) {
  attest::Problem p;
  p.b = call.b();
  p.hq = call.heads;
  p.hkv = call.kv_heads;
  p.lq = call.l();
  p.lk = call.m();
  p.d = p.dv = call.head_dim;
  p.dtype = storage;
  p.scale = call.scale;
  p.causal = call.causal;
  p.align = call.align;
  return p;
}

}  // namespace attest::mha
