// Calls read otherwise than they were meant. None knows a kernel: each is a sentence of attest/plugin.h, misread.
#include "ops/attention/variants.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

namespace attest::ops::of_attention {
namespace {

constexpr Index most_written_out = Index{1} << 16;  // elements of a mask or a tensor that a variant writes

Index length_of(const Inputs& inputs, const Problem& p, Index b) {
  return inputs.kv_lengths.present() ? static_cast<Index>(inputs.kv_lengths.at(b)) : p.lk;
}

// A tensor of four axes in a format that holds every product, element by element.
template <class Value>
bool write(Tensor& to, const std::array<Index, 4>& n, DType type, Value value) {
  if (n[0] * n[1] * n[2] * n[3] > most_written_out) return false;
  Tensor written(type, n);
  for (Index b = 0; b < n[0]; ++b)
    for (Index h = 0; h < n[1]; ++h)
      for (Index i = 0; i < n[2]; ++i)
        for (Index c = 0; c < n[3]; ++c) written.set(b, h, i, c, value(b, h, i, c));
  to = std::move(written);
  return true;
}
std::array<Index, 4> scores_of(const Problem& p) { return {p.b, p.hq, p.lq, p.lk}; }
std::array<Index, 4> extents(const Tensor& t) { return {t.shape()[0], t.shape()[1], t.shape()[2], t.shape()[3]}; }

// Closes keys beside those that the call's mask closes.
template <class Closed>
bool close(const Problem& p, Inputs& inputs, Closed closed) {
  Tensor kept;
  if (!write(kept, scores_of(p), DType::boolean, [&](Index b, Index h, Index i, Index j) {
        return (inputs.keep.present() && inputs.keep.at(b, h, i, j) == 0) || closed(b, h, i, j) ? 0. : 1.;
      }))
    return false;
  inputs.keep = std::move(kept);
  return true;
}

// ---- the diagonal and windows ---------------------------------------------------------------------------------------

bool windowed(const Inputs& in) { return in.causal || in.window_left >= 0 || in.window_right >= 0; }

bool other_corner(Problem&, Inputs& in) {
  if (!windowed(in)) return false;
  in.align = in.align == Align::top_left ? Align::bottom_right : Align::top_left;
  return true;
}
bool one_more_right(Problem&, Inputs& in) {
  if (!in.causal && in.window_right < 0) return false;
  in.window_right = in.causal ? 1 : in.window_right + 1;
  in.causal = false;
  return true;
}
bool one_fewer_right(Problem& p, Inputs& in) {
  if (!in.causal && in.window_right < 0) return false;
  return close(p, in, [&](Index b, Index, Index i, Index j) {
    return j + 1 == key_range(in, i, p.lq, length_of(in, p, b)).last;
  });
}
bool one_more_left(Problem&, Inputs& in) {
  if (in.window_left < 0) return false;
  ++in.window_left;
  return true;
}
bool one_fewer_left(Problem& p, Inputs& in) {
  if (in.window_left < 0) return false;
  if (in.window_left > 0) return --in.window_left, true;
  return close(
      p, in, [&](Index b, Index, Index i, Index j) { return j == key_range(in, i, p.lq, length_of(in, p, b)).first; });
}
bool no_causality(Problem&, Inputs& in) { return std::exchange(in.causal, false); }
bool no_window(Problem&, Inputs& in) {
  const bool any = in.window_left >= 0 || in.window_right >= 0;
  in.window_left = in.window_right = -1;
  return any;
}

// ---- masks ----------------------------------------------------------------------------------------------------------

template <Tensor Inputs::*member>
bool left_out(Problem&, Inputs& in) {
  if (!(in.*member).present()) return false;
  in.*member = Tensor();
  return true;
}
bool keep_as_length(Problem& p, Inputs& in) {
  if (!in.keep.present()) return false;
  Tensor counted;
  const auto open = [&](Index b, Index h, Index i, Index j) {
    Index n = 0;
    for (Index key = 0; key < p.lk; ++key) n += in.keep.at(b, h, i, key) != 0;
    return j < n ? 1. : 0.;
  };
  if (p.b * p.hq * p.lq * p.lk * p.lk > most_written_out || !write(counted, scores_of(p), DType::boolean, open))
    return false;
  in.keep = std::move(counted);
  return true;
}
bool keep_inverted(Problem& p, Inputs& in) {
  if (!in.keep.present()) return false;
  Tensor inverted;
  if (!write(inverted, scores_of(p), DType::boolean,
             [&](Index b, Index h, Index i, Index j) { return in.keep.at(b, h, i, j) == 0 ? 1. : 0.; }))
    return false;
  in.keep = std::move(inverted);
  return true;
}
bool bias_as_mask(Problem& p, Inputs& in) {
  if (!in.bias.present() ||
      !close(p, in, [&](Index b, Index h, Index i, Index j) { return in.bias.at(b, h, i, j) != 0; }))
    return false;
  in.bias = Tensor();
  return true;
}
// Masks by a finite number: a closed key's score is lowered by 1e4, which hides the key only if another score is not as
// low.
bool closed_by_lowest(Problem& p, Inputs& in) {
  const bool any = in.keep.present() || in.kv_lengths.present() || windowed(in);
  Tensor lowered;
  constexpr double low = -1e4;
  const auto bias = [&](Index b, Index h, Index i, Index j) {
    const KeyRange range = key_range(in, i, p.lq, length_of(in, p, b));
    const bool open = j >= range.first && j < range.last && (!in.keep.present() || in.keep.at(b, h, i, j) != 0);
    return (in.bias.present() ? in.bias.at(b, h, i, j) : 0.) + (open ? 0. : low);
  };
  if (!any || !write(lowered, scores_of(p), DType::f64, bias)) return false;
  in.bias = std::move(lowered);
  in.keep = Tensor();
  in.kv_lengths = Tensor();
  in.causal = false;
  in.window_left = in.window_right = -1;
  return true;
}

// ---- scale, softcap, bias -------------------------------------------------------------------------------------------

bool rescaled(Inputs& in, double scale) {
  if (scale == in.scale || !std::isfinite(scale)) return false;
  in.scale = scale;
  in.scale_is_default = false;
  return true;
}
bool unscaled(Problem&, Inputs& in) { return rescaled(in, 1); }
bool scaled_twice(Problem&, Inputs& in) { return rescaled(in, in.scale * in.scale); }
bool scaled_by_root(Problem&, Inputs& in) { return in.scale > 0 && rescaled(in, std::sqrt(in.scale)); }
bool scaled_by_default(Problem& p, Inputs& in) {
  return p.d > 0 && rescaled(in, 1 / std::sqrt(static_cast<double>(p.d)));
}
bool scaled_by_width(Problem& p, Inputs& in) {
  return p.d > 0 && rescaled(in, 1 / std::sqrt(static_cast<double>(p.hq * p.d)));
}
bool scaled_values(Problem& p, Inputs& in) {
  const double scale = in.scale;
  Tensor values;
  if (!rescaled(in, 1) || !write(values, extents(in.v), DType::f64,
                                 [&](Index b, Index h, Index j, Index c) { return scale * in.v.at(b, h, j, c); }))
    return false;
  (void)p;
  in.v = std::move(values);
  return true;
}
bool uncapped(Problem&, Inputs& in) { return std::exchange(in.softcap, 0) != 0; }

bool with_bias(Inputs& in, const Problem& p, const std::function<double(Index, Index, Index, Index)>& bias) {
  Tensor changed;
  if (!in.bias.present() || !write(changed, scores_of(p), DType::f64, bias)) return false;
  in.bias = std::move(changed);
  return true;
}
bool scaled_bias(Problem& p, Inputs& in) {
  if (in.scale == 1) return false;
  return with_bias(in, p, [&](Index b, Index h, Index i, Index j) { return in.scale * in.bias.at(b, h, i, j); });
}
bool bias_in_base_two(Problem& p, Inputs& in) {
  return with_bias(in, p,
                   [&](Index b, Index h, Index i, Index j) { return std::numbers::ln2 * in.bias.at(b, h, i, j); });
}
bool bias_of_first_head(Problem& p, Inputs& in) {
  return p.hq > 1 && with_bias(in, p, [&](Index b, Index, Index i, Index j) { return in.bias.at(b, 0, i, j); });
}
bool bias_of_later_keys(Problem& p, Inputs& in) {
  return p.lk != p.lq && with_bias(in, p, [&](Index b, Index h, Index i, Index j) {
           return in.bias.at(b, h, i, std::max<Index>(0, j - (p.lk - p.lq)));
         });
}

// ---- which tensor is read, and how ----------------------------------------------------------------------------------

template <Tensor Inputs::*member>
bool of_first_sample(Problem& p, Inputs& in) {
  const Tensor& from = in.*member;
  if (p.b < 2 || !from.present()) return false;
  Tensor changed;
  if (from.shape().size() == 1) {
    changed = from.clone();
    for (Index b = 0; b < p.b; ++b) changed.set(b, 0, 0, 0, from.at(0));
  } else if (!write(changed, extents(from), from.dtype(),
                    [&](Index, Index h, Index i, Index c) { return from.at(0, h, i, c); })) {
    return false;
  }
  in.*member = std::move(changed);
  return true;
}
bool interleaved_heads(Problem& p, Inputs& in) {
  if (p.hkv < 2 || p.hkv == p.hq) return false;
  Tensor k, v;
  const auto taken = [&](const Tensor& from) {
    return [&from, &p](Index b, Index h, Index i, Index c) { return from.at(b, h % p.hkv, i, c); };
  };
  if (!write(k, {p.b, p.hq, p.lk, p.d}, in.k.dtype(), taken(in.k)) ||
      !write(v, {p.b, p.hq, p.lk, p.dv}, in.v.dtype(), taken(in.v)))
    return false;
  in.k = std::move(k);
  in.v = std::move(v);
  p.hkv = p.hq;
  return true;
}

// Elements where they would lie with other strides, as far as the memory of the tensor goes.
using StridesOf = std::array<Index, 4> (*)(const std::array<Index, 4>& shape);
bool read_again(Tensor& to, StridesOf strides_of) {
  const attest_tensor tensor = to.view();
  const std::array<Index, 4> n{tensor.shape[0], tensor.shape[1], tensor.shape[2], tensor.shape[3]};
  const std::array<Index, 4> strides = strides_of(n);
  Index reach = 0, other = 0;
  bool differs = false;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (n[axis] == 0) return false;
    reach += (n[axis] - 1) * tensor.strides[axis];
    other += (n[axis] - 1) * strides[axis];
    differs = differs || (n[axis] > 1 && strides[axis] != tensor.strides[axis]);
  }
  if (!differs || other > reach) return false;
  attest_tensor again = tensor;
  std::array<Index, 4> own = strides;
  again.strides = own.data();
  return write(to, n, to.dtype(), [&](Index b, Index h, Index i, Index c) { return load(again, b, h, i, c); });
}
std::array<Index, 4> contiguous(const std::array<Index, 4>& n) { return {n[1] * n[2] * n[3], n[2] * n[3], n[3], 1}; }
std::array<Index, 4> heads_inside(const std::array<Index, 4>& n) { return {n[1] * n[2] * n[3], n[3], n[1] * n[3], 1}; }
template <StridesOf strides>
bool read_as(Problem&, Inputs& in) {
  const bool q = read_again(in.q, strides), k = read_again(in.k, strides), v = read_again(in.v, strides);
  return q || k || v;
}

// ---- tiles of keys --------------------------------------------------------------------------------------------------

// The keys behind the last whole tile are closed.
template <Index tile>
bool tail_dropped(Problem& p, Inputs& in) {
  if (p.lk % tile == 0 || p.lk < tile) return false;
  return close(p, in, [&](Index, Index, Index, Index j) { return j >= p.lk / tile * tile; });
}
// The last tile is filled with open keys of score 0 and value 0.
template <Index tile>
bool tail_padded(Problem& p, Inputs& in) {
  const Index padded = (p.lk + tile - 1) / tile * tile;
  if (padded == p.lk) return false;
  const auto or_zero = [&](const Tensor& from) {
    return [&from, &p](Index b, Index h, Index j, Index c) { return j < p.lk ? from.at(b, h, j, c) : 0.; };
  };
  Tensor k, v, keep, bias;
  const std::array<Index, 4> scores{p.b, p.hq, p.lq, padded};
  const auto kept = [&](Index b, Index h, Index i, Index j) {
    if (j >= p.lk) return 1.;
    const KeyRange range = key_range(in, i, p.lq, length_of(in, p, b));
    return j >= range.first && j < range.last && (!in.keep.present() || in.keep.at(b, h, i, j) != 0) ? 1. : 0.;
  };
  if (!write(k, {p.b, p.hkv, padded, p.d}, in.k.dtype(), or_zero(in.k)) ||
      !write(v, {p.b, p.hkv, padded, p.dv}, in.v.dtype(), or_zero(in.v)) || !write(keep, scores, DType::boolean, kept))
    return false;
  if (in.bias.present() && !write(bias, scores, in.bias.dtype(), [&](Index b, Index h, Index i, Index j) {
        return j < p.lk ? in.bias.at(b, h, i, j) : 0.;
      }))
    return false;
  in.k = std::move(k);
  in.v = std::move(v);
  in.keep = std::move(keep);
  in.bias = std::move(bias);
  in.kv_lengths = Tensor();
  in.causal = false;
  in.window_left = in.window_right = -1;
  p.lk = padded;
  return true;
}

constexpr auto all = std::to_array<Variant>({
    {"the diagonal measured from the other corner", "mask", other_corner},
    {"one key more to the right of the diagonal", "mask", one_more_right},
    {"one key fewer to the right of the diagonal", "mask", one_fewer_right},
    {"a left window one key longer", "mask", one_more_left},
    {"a left window one key shorter", "mask", one_fewer_left},
    {"causality ignored", "mask", no_causality},
    {"windows ignored", "mask", no_window},
    {"the keep mask ignored", "mask", left_out<&Inputs::keep>},
    {"the keep mask taken for a number of keys", "mask", keep_as_length},
    {"the keep mask inverted", "mask", keep_inverted},
    {"key lengths ignored", "mask", left_out<&Inputs::kv_lengths>},
    {"the bias taken for a mask: what is not 0 closes its key", "mask", bias_as_mask},
    {"-10000 added to closed keys instead of -inf", "mask", closed_by_lowest},
    {"the keys behind the last whole tile of 16 left out", "softmax", tail_dropped<16>},
    {"the keys behind the last whole tile of 32 left out", "softmax", tail_dropped<32>},
    {"the keys behind the last whole tile of 64 left out", "softmax", tail_dropped<64>},
    {"the keys behind the last whole tile of 128 left out", "softmax", tail_dropped<128>},
    {"the last tile of 16 keys filled with keys of score 0", "softmax", tail_padded<16>},
    {"the last tile of 32 keys filled with keys of score 0", "softmax", tail_padded<32>},
    {"the last tile of 64 keys filled with keys of score 0", "softmax", tail_padded<64>},
    {"the last tile of 128 keys filled with keys of score 0", "softmax", tail_padded<128>},
    {"the scale ignored", "scale", unscaled},
    {"the scale applied twice", "scale", scaled_twice},
    {"the root of the scale in its place", "scale", scaled_by_root},
    {"1/sqrt(D) whatever the scale", "scale", scaled_by_default},
    {"1/sqrt(Hq D) as the scale", "scale", scaled_by_width},
    {"the scale on the values instead of the scores", "scale", scaled_values},
    {"the softcap ignored", "softcap", uncapped},
    {"the bias ignored", "score", left_out<&Inputs::bias>},
    {"the bias scaled along with the products", "score", scaled_bias},
    {"the bias added in base 2", "score", bias_in_base_two},
    {"the bias of head 0 for every head", "score", bias_of_first_head},
    {"the bias counted from the first query", "score", bias_of_later_keys},
    {"the queries of sample 0 for every sample", "reading", of_first_sample<&Inputs::q>},
    {"the keys of sample 0 for every sample", "reading", of_first_sample<&Inputs::k>},
    {"the values of sample 0 for every sample", "reading", of_first_sample<&Inputs::v>},
    {"the bias of sample 0 for every sample", "mask", of_first_sample<&Inputs::bias>},
    {"the keep mask of sample 0 for every sample", "mask", of_first_sample<&Inputs::keep>},
    {"the key length of sample 0 for every sample", "mask", of_first_sample<&Inputs::kv_lengths>},
    {"key/value head h % Hkv for head h", "reading", interleaved_heads},
    {"q, k and v read as if contiguous", "reading", read_as<contiguous>},
    {"q, k and v read as [B,L,H,D]", "reading", read_as<heads_inside>},
});

}  // namespace

std::span<const Variant> variants() { return all; }

}  // namespace attest::ops::of_attention
