#include "core/mha/inputs.hpp"

#include <array>

#include "core/mha/weights.hpp"
#include "core/rng.hpp"

namespace attest::mha {
namespace {

// A contiguous tensor of up to three axes.
Tensor tensor_of(DType type, std::initializer_list<Index> shape, const std::vector<double>& values) {
  const std::vector<Index> extents(shape);
  Tensor tensor(type, extents);
  const Index rows = extents.size() == 3 ? extents[1] : 1, columns = extents.back();
  for (std::size_t n = 0; n < values.size(); ++n) {
    const auto at = static_cast<Index>(n);
    if (extents.size() == 1)
      tensor.set(at, 0, 0, 0, values[n]);
    else if (extents.size() == 2)
      tensor.set(at / columns, at % columns, 0, 0, values[n]);
    else
      tensor.set(at / (rows * columns), at / columns % rows, at % columns, 0, values[n]);
  }
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
  if (p.padding == Padding::ragged || p.padding == Padding::some_zero) {
    inputs.kv_lengths = Tensor(DType::i32, std::array{p.b});
    for (Index b = 0; b < p.b; ++b) {
      const bool empty = p.padding == Padding::some_zero && (drawn(b, -1, 0, 0) & 1) != 0;
      const auto length = 1 + static_cast<Index>(below(drawn(b, 0, 0, 0), static_cast<std::uint64_t>(p.m)));
      inputs.kv_lengths.set(b, 0, 0, 0, empty ? 0 : static_cast<double>(length));
    }
  }
  if (p.padding == Padding::scattered || p.padding == Padding::rows) {
    const bool rows = p.padding == Padding::rows;
    const std::array<Index, 4> shape{p.b, p.heads, p.l, p.m};
    const std::array<Index, 4> strides{rows ? p.heads * p.l * p.m : p.m, rows ? p.l * p.m : 0, rows ? p.m : 0, 1};
    inputs.keep = Tensor(DType::boolean, shape, strides);
    for (Index b = 0; b < p.b; ++b)
      for (Index h = 0; h < (rows ? p.heads : 1); ++h)
        for (Index i = 0; i < (rows ? p.l : 1); ++i)
          for (Index j = 0; j < p.m; ++j)
            inputs.keep.set(b, h, i, j, below(drawn(b, h, i, j), 4) < (rows ? 2 : 3) ? 1 : 0);
  }
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
  inputs.x = tensor_of(type, {p.b, p.l, p.e}, v.x);
  if (!p.self) inputs.memory = tensor_of(type, {p.b, p.m, p.e}, v.memory);
  const Index q = p.q_width(), kv = p.kv_width();
  if (p.packed) {
    inputs.w_q = tensor_of(type, {q + 2 * kv, p.e}, joined(v.w_q, v.w_k, v.w_v));
    if (p.has_in_biases()) inputs.b_q = tensor_of(type, {q + 2 * kv}, joined(v.b_q, v.b_k, v.b_v));
  } else {
    inputs.w_q = tensor_of(type, {q, p.e}, v.w_q);
    inputs.w_k = tensor_of(type, {kv, p.e}, v.w_k);
    inputs.w_v = tensor_of(type, {kv, p.e}, v.w_v);
    if (p.has_in_biases()) {
      inputs.b_q = tensor_of(type, {q}, v.b_q);
      inputs.b_k = tensor_of(type, {kv}, v.b_k);
      inputs.b_v = tensor_of(type, {kv}, v.b_v);
    }
  }
  inputs.w_out = tensor_of(type, {p.e, q}, v.w_out);
  if (p.has_out_bias()) inputs.b_out = tensor_of(type, {p.e}, v.b_out);
  make_masks(p, inputs);
  return inputs;
}

Tensor make_out(const Problem& p) {
  Tensor out(dtype_of(p.dtype), std::array{p.b, p.l, p.e});
  out.poison();
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
  call.keep = keep.view();
  call.kv_lengths = kv_lengths.view();
  call.out = out.view();
  call.heads = problem.heads;
  call.kv_heads = problem.kv_heads;
  call.head_dim = problem.head_dim;
  call.causal = problem.causal;
  call.align = problem.align;
  call.scale = problem.effective_scale();
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
