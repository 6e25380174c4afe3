#include "ops/mha/probe/ask.hpp"

#include <algorithm>
#include <vector>

#include "core/inputs.hpp"
#include "core/supports.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Biases;
using attest::mha::Padding;
using attest::mha::Weights;

constexpr std::size_t most_edits = 4096;

// A column of a tensor of heads that holds something.
struct Live {
  Index head, column;
};
std::vector<Live> live_columns(const Tensor& tensor, Index heads, Index width) {
  const auto& n = tensor.shape();
  std::vector<Live> all;
  for (Index h = 0; h < heads; ++h)
    for (Index c = 0; c < width; ++c) {
      bool live = false;
      for (Index b = 0; b < n[0] && !live; ++b)
        for (Index i = 0; i < n[2] && !live; ++i) live = !(tensor.at(b, h, i, c) == 0);
      if (live) all.push_back({h, c});
    }
  return all;
}

// Tells whether a mask says the same of every head and row, and of every sample.
bool is_alike(const Tensor& mask, const attest::Problem& p, bool samples) {
  for (Index b = 0; b < p.b; ++b)
    for (Index h = 0; h < p.hq; ++h)
      for (Index i = 0; i < p.lq; ++i)
        for (Index j = 0; j < p.lk; ++j)
          if (mask.at(b, h, i, j) != mask.at(samples ? 0 : b, 0, 0, j)) return false;
  return true;
}

}  // namespace

void set(Problem& problem, Edit::Tensor tensor, std::array<Index, 4> index, double value) {
  problem.edits.push_back({tensor, index, value});
}
void set_memory(Problem& problem, Index token, Index column, double value) {
  set(problem, problem.self ? Edit::Tensor::x : Edit::Tensor::memory, {0, token, column, 0}, value);
}

std::optional<Problem> BlockMaker::blank(Shape shape) const {
  const Supports& s = supports_;
  Problem p;
  p.dtype = dtype_;
  p.weights = Weights::zero;
  p.self = !s.cross;
  p.b = shape.b;
  p.l = shape.l;
  p.m = shape.m;
  if (p.self) {
    if (shape.l > shape.m) return std::nullopt;
    p.l = p.m;
  }
  p.head_dim = shape.head_dim;
  if (s.scale != Supports::Scale::only_default) p.scale = 1;
  const bool in = !s.no_in_biases, out = !s.no_out_bias;
  p.biases = in ? out ? Biases::all : Biases::in : out ? Biases::out : Biases::none;
  const Index step = row_step(s.alignment, dtype_), group = shape.heads / shape.kv_heads;
  constexpr Index most_heads = 96;
  for (p.heads = shape.heads; p.heads <= most_heads; ++p.heads) {
    if (p.heads % group != 0) continue;
    p.kv_heads = p.heads / group;
    p.e = s.heads_fill_e ? p.q_width() : s.e.nearest((shape.e + step - 1) / step * step);
    if (p.e < shape.e || attest::mha::declined(p, s, {&dtype_, 1})) continue;
    return p;
  }
  return std::nullopt;
}

Index BlockMaker::even_tokens(Index least) const {
  for (Index n = least; n <= 2 * least + 64; ++n)
    if (n % 2 == 0 && supports_.m.offers(n) && (supports_.cross || supports_.l.offers(n))) return n;
  return 0;
}

attest::Supports attention_within(const Supports& s) {
  attest::Supports a;
  a.causal = s.causal;
  a.top_left = s.top_left;
  a.bottom_right = s.bottom_right;
  a.gqa = s.gqa;
  a.bias = s.bias;
  a.bias_types = {true, false};
  a.keep = s.keep;
  a.kv_lengths = s.kv_lengths;
  a.window = a.softcap = a.lse = false;
  a.scale = static_cast<attest::Supports::Scale>(s.scale);
  a.strides = s.strides;
  a.alignment = s.alignment;
  a.b = s.b;
  a.hq = s.heads;
  a.hkv = s.kv_heads;
  a.lq = s.l;
  a.lk = s.m;
  a.d = a.dv = s.head_dim;
  a.dv_equals_d = true;
  return a;
}

std::optional<ops::Problem> Heart::said(const attest::Problem& of) const {
  constexpr Index most_elements = Index{1} << 20, most_scores = Index{1} << 17;
  if (of.b * std::max(of.lq, of.lk) * of.d * of.hq > most_elements) return std::nullopt;
  if (of.b * of.hq * (maker_.crosses() ? of.lq : of.lk) * of.lk > most_scores) return std::nullopt;
  const attest::Inputs in = materialise(of);
  const std::vector<Live> q = live_columns(in.q, of.hq, of.d), k = live_columns(in.k, of.hkv, of.d),
                          v = live_columns(in.v, of.hkv, of.dv);
  const Index group = of.hq / of.hkv;
  const auto of_q = static_cast<Index>(q.size()), of_k = static_cast<Index>(k.size()),
             of_v = static_cast<Index>(v.size());
  Index least = maker_.crosses() ? std::max(of_q, of_k + of_v) : of_q + of_k + of_v;
  for (const Live& each : v) least = std::max(least, ((each.head + 1) * group - 1) * of.d + each.column + 1);
  auto p = maker_.blank({of.b, of.lq, of.lk, of.hq, of.hkv, of.d, std::max<Index>(least, 1)});
  if (!p) return std::nullopt;
  if (p->self && of.causal && of.align == Align::bottom_right && of.lq != of.lk) return std::nullopt;
  p->scale = of.scale;
  p->causal = of.causal;
  p->align = of.align;
  p->threads = of.threads;
  using enum Edit::Tensor;
  const Edit::Tensor memory_tensor = p->self ? x : memory;
  const Index k_at = p->self ? of_q : 0, v_at = k_at + of_k;
  const auto carry = [&](const Tensor& from, const std::vector<Live>& live, Edit::Tensor to, Edit::Tensor weights,
                         Index first) {
    for (std::size_t n = 0; n < live.size(); ++n) {
      const auto [head, column] = live[n];
      const Index at = first + static_cast<Index>(n);
      set(*p, weights, {head * of.d + column, at, 0, 0}, 1);
      for (Index b = 0; b < of.b; ++b)
        for (Index i = 0; i < from.shape()[2]; ++i)
          if (const double value = from.at(b, head, i, column); !(value == 0)) set(*p, to, {b, i, at, 0}, value);
    }
  };
  carry(in.q, q, x, w_q, 0);
  carry(in.k, k, memory_tensor, w_k, k_at);
  carry(in.v, v, memory_tensor, w_v, v_at);
  for (const Live& each : v)
    for (Index h = each.head * group; h < (each.head + 1) * group; ++h) {
      const Index column = h * of.d + each.column;
      set(*p, w_out, {column, column, 0, 0}, 1);
    }
  const bool contiguous = maker_.supports().strides == Strides::contiguous;
  if (in.keep.present()) {
    const bool alike = !contiguous && is_alike(in.keep, of, false);
    p->padding = alike ? Padding::scattered : Padding::rows;
    for (Index b = 0; b < p->b; ++b)
      for (Index h = 0; h < (alike ? 1 : p->heads); ++h)
        for (Index i = 0; i < (alike ? 1 : p->l); ++i)
          for (Index j = 0; j < p->m; ++j)
            set(*p, keep, {b, h, i, j}, h < of.hq && i < of.lq ? in.keep.at(b, h, i, j) : 1);
  }
  if (in.kv_lengths.present()) {
    p->padding = Padding::ragged;
    for (Index b = 0; b < p->b; ++b) set(*p, kv_lengths, {b, 0, 0, 0}, in.kv_lengths.at(b));
  }
  if (in.keep.present() && in.kv_lengths.present()) return std::nullopt;
  if (in.bias.present()) {
    const bool alike = !contiguous && is_alike(in.bias, of, true);
    p->bias = alike ? attest::mha::Bias::shared : attest::mha::Bias::normal;
    for (Index b = 0; b < (alike ? 1 : p->b); ++b)
      for (Index h = 0; h < (alike ? 1 : p->heads); ++h)
        for (Index i = 0; i < p->l; ++i)
          for (Index j = 0; j < p->m; ++j)
            set(*p, bias, {b, h, i, j}, h < of.hq && i < of.lq ? in.bias.at(b, h, i, j) : 0);
  }
  if (p->edits.size() > most_edits) return std::nullopt;
  return ops::Problem(std::move(*p));
}

probing::Place Heart::place(const attest::Problem& of, const probing::Place& index) const {
  return {index[0], index[2], index[1] * of.d + index[3], 0};
}

}  // namespace attest::ops::of_mha
