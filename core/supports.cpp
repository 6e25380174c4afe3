#include "core/supports.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/inputs.hpp"
#include "core/tensor.hpp"

namespace attest {
namespace {

using Clause = std::optional<std::string>;

Clause declined_type(const attest_attention& call, const Supports& s, std::span<const Format> dtypes) {
  const std::optional<DType> type = dtype_of(call.q.dtype);
  const auto floating = [](DType t) { return t != DType::i32 && t != DType::boolean; };
  if (!type || !floating(*type) || std::ranges::find(dtypes, format_of(*type)) == dtypes.end())
    return fmt::format("the subject does not offer dtype {}", type && floating(*type) ? name(format_of(*type)) : "");
  if (!attest_present(&call.bias)) return std::nullopt;
  if (!s.bias) return "the subject takes no bias";
  const Format bias = format_of(*dtype_of(call.bias.dtype));
  Problem problem;
  problem.dtype = format_of(*type);
  for (std::size_t own = 0; own < bias_type_count; ++own) {
    problem.bias_type = static_cast<BiasType>(own);
    if (s.bias_types[own] && problem.bias_format() == bias) return std::nullopt;
  }
  return fmt::format("the subject takes no bias in {} beside {}", name(bias), name(problem.dtype));
}

Clause declined_size(const attest_attention& call, const Supports& s) {
  const std::int64_t *q = call.q.shape, *k = call.k.shape, *v = call.v.shape;
  const std::pair<std::string_view, std::pair<Index, const DimRange*>> sizes[] = {
      {"b", {q[0], &s.b}},   {"hq", {q[1], &s.hq}}, {"hkv", {k[1], &s.hkv}}, {"lq", {q[2], &s.lq}},
      {"lk", {k[2], &s.lk}}, {"d", {q[3], &s.d}},   {"dv", {v[3], &s.dv}}};
  for (const auto& [axis, size] : sizes)
    if (!size.second->offers(size.first)) return fmt::format("the subject takes {} {}", axis, text_of(*size.second));
  if (s.dv_equals_d && v[3] != q[3]) return "the subject takes dv = d alone";
  if (!s.gqa && q[1] != k[1]) return "the subject takes as many key/value heads as query heads alone";
  return std::nullopt;
}

Clause declined_option(const attest_attention& call, const Supports& s) {
  const bool window = call.window_left >= 0 || call.window_right >= 0;
  if (call.causal && !s.causal) return "the subject takes no causal mask";
  if (window && !s.window) return "the subject takes no window";
  if (call.causal || window) {
    if (call.align == ATTEST_TOP_LEFT && !s.top_left) return "the subject takes no diagonal from the top left corner";
    if (call.align == ATTEST_BOTTOM_RIGHT && !s.bottom_right)
      return "the subject takes no diagonal from the bottom right corner";
  }
  if (attest_present(&call.keep) && !s.keep) return "the subject takes no keep mask";
  if (attest_present(&call.kv_lengths) && !s.kv_lengths) return "the subject takes no key lengths";
  if (call.softcap != 0 && !s.softcap) return "the subject takes no softcap";
  if (attest_present(&call.lse) && !s.lse) return "the subject gives no log-sum-exp";
  if (call.flags & ATTEST_SCALE_IS_DEFAULT) return std::nullopt;
  if (s.scale == Supports::Scale::only_default) return "the subject takes the default scale alone";
  if (s.scale == Supports::Scale::positive && !(call.scale > 0)) return "the subject takes positive scales alone";
  return std::nullopt;
}

Clause declined_form(std::span<const FormChoice> choices, const Supports& s) {
  for (const FormChoice& choice : choices) {
    const auto offer = std::ranges::find(s.forms, choice.name, &FormOffer::name);
    if (offer == s.forms.end()) return fmt::format("the subject has no form.{}", choice.name);
    if (std::ranges::find(offer->values, choice.value) == offer->values.end())
      return fmt::format("the subject has no form.{}={}: it has {}", choice.name, choice.value,
                         fmt::join(offer->values, ", "));
  }
  return std::nullopt;
}

// There is nothing to read or write, wherever it lies.
bool without_elements(const attest_tensor& tensor) {
  return std::find(tensor.shape, tensor.shape + tensor.ndim, 0) != tensor.shape + tensor.ndim;
}

// Axes of a single element count too: a kernel may read their strides before their extents.
bool row_major(const attest_tensor& tensor) {
  std::int64_t expected = 1;
  for (std::int32_t axis = tensor.ndim; axis-- > 0;) {
    if (tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

bool aligned(const attest_tensor& tensor, Index bytes) {
  const auto to = static_cast<std::uint64_t>(bytes), width = static_cast<std::uint64_t>(tensor.dtype.bits / 8);
  if ((reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset) % to != 0) return false;
  return std::all_of(tensor.strides, tensor.strides + tensor.ndim - 1,
                     [&](std::int64_t stride) { return static_cast<std::uint64_t>(stride) * width % to == 0; });
}

Clause declined_memory(const attest_attention& call, const Supports& s) {
  const std::pair<std::string_view, const attest_tensor*> tensors[] = {
      {"q", &call.q}, {"k", &call.k}, {"v", &call.v}, {"out", &call.out}, {"bias", &call.bias}, {"keep", &call.keep}};
  for (const auto& [name, tensor] : tensors) {
    if (!attest_present(tensor) || without_elements(*tensor)) continue;
    if (s.strides == Supports::Strides::contiguous && !row_major(*tensor))
      return fmt::format("the subject takes contiguous tensors alone, also as {}", name);
    if (s.strides == Supports::Strides::last_dim_contiguous && tensor->strides[tensor->ndim - 1] != 1)
      return fmt::format("the subject takes tensors with a contiguous last axis alone, also as {}", name);
    const auto axes = static_cast<std::size_t>(tensor->ndim);
    if (!s.far && past_32_bits({tensor->shape, axes}, {tensor->strides, axes}))
      return fmt::format("the subject takes offsets of 32 bits alone, also in {}", name);
    const bool mask = tensor == &call.bias || tensor == &call.keep;
    if (!mask && s.alignment > 1 && !aligned(*tensor, s.alignment))
      return fmt::format("the subject takes rows that begin at multiples of {} bytes alone, also in {}", s.alignment,
                         name);
  }
  return std::nullopt;
}

// The shape and the strides of a tensor whose memory begins at address 0.
struct Outline {
  std::array<std::int64_t, 4> shape{}, strides{};

  attest_tensor view(DType type, const std::array<Index, 4>& of, const Placement& placement) {
    shape = of;
    strides = placement.strides;
    attest_tensor tensor{};
    tensor.ndim = 4;
    tensor.dtype = plugin_dtype(type);
    tensor.shape = shape.data();
    tensor.strides = strides.data();
    tensor.byte_offset = static_cast<std::uint64_t>(placement.base_offset) * size_of(type);
    return tensor;
  }
  // The same, for what the decision does not look into.
  attest_tensor present() {
    attest_tensor tensor{};
    tensor.ndim = 1;
    tensor.shape = shape.data();
    tensor.strides = strides.data();
    return tensor;
  }
};

}  // namespace

std::string text_of(const DimRange& range) {
  if (range.min == range.max) return fmt::format("= {} alone", range.min);
  std::string text = fmt::format("from {}", range.min);
  if (range.max < DimRange{}.max) text += fmt::format(" to {}", range.max);
  if (range.multiple > 1) text += fmt::format(" in multiples of {}", range.multiple);
  return text;
}

Index row_step(Index alignment, Format dtype) {
  const auto bytes = static_cast<Index>(size_of(dtype_of(dtype)));
  return std::max<Index>(alignment / std::gcd(alignment, bytes), 1);
}

Clause declined(const attest_attention& call, const Supports& supports, std::span<const Format> dtypes) {
  if (Clause why = declined_type(call, supports, dtypes)) return why;
  if (Clause why = declined_size(call, supports)) return why;
  if (Clause why = declined_option(call, supports)) return why;
  if (call.form != nullptr)
    if (Clause why = declined_form(forms_from_json_text(call.form), supports)) return why;
  return declined_memory(call, supports);
}

Clause declined(const Problem& p, const Supports& supports, std::span<const Format> dtypes) {
  if (Clause why = declined_form(p.forms, supports)) return why;
  Outline q, k, v, out, bias, keep, other;
  attest_attention call{};
  const DType type = dtype_of(p.dtype);
  const auto plain = [&](Outline& outline, Layout layout, const std::array<Index, 4>& shape) {
    return outline.view(type, shape, place(layout, shape));
  };
  const std::array<Index, 4> scores{p.b, p.hq, p.lq, p.lk};
  const auto mask = [&](Outline& outline, DType of, Index axes) {
    return outline.view(of, scores, place(p.mask_layout, scores, ~static_cast<unsigned>(axes) & 15u));
  };
  call.q = plain(q, p.q_layout, {p.b, p.hq, p.lq, p.d});
  call.k = plain(k, p.k_layout, {p.b, p.hkv, p.lk, p.d});
  call.v = plain(v, p.v_layout, {p.b, p.hkv, p.lk, p.dv});
  call.out = plain(out, p.out_layout, {p.b, p.hq, p.lq, p.dv});
  if (p.bias != Bias::none) call.bias = mask(bias, dtype_of(p.bias_format()), p.bias_axes);
  if (p.keep != Keep::none) call.keep = mask(keep, DType::boolean, p.keep_axes);
  if (p.lengths != Lengths::none) call.kv_lengths = other.present();
  if (p.lse != LseOutput::none) call.lse = other.present();
  call.flags = p.scale ? 0 : ATTEST_SCALE_IS_DEFAULT;
  call.scale = p.effective_scale();
  call.softcap = p.softcap;
  call.causal = p.causal;
  call.align = p.align == Align::bottom_right ? ATTEST_BOTTOM_RIGHT : ATTEST_TOP_LEFT;
  call.window_left = p.window_left;
  call.window_right = p.window_right;
  return declined(call, supports, dtypes);
}

}  // namespace attest
