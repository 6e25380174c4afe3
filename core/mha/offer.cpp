#include "core/mha/offer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/supports.hpp"

namespace attest::mha {
namespace {

using Clause = std::optional<std::string>;

Clause declined_shape(const Problem& p, const Supports& s) {
  for (const Field& field : fields())
    if (field.extent && !(s.*field.extent).offers(field.get(p)))
      return fmt::format("the subject takes {} {}", field.name, text_of(s.*field.extent));
  if (s.heads_fill_e && p.q_width() != p.e) return "the subject takes heads * head_dim = e alone";
  if (!s.gqa && p.heads != p.kv_heads) return "the subject takes as many key/value heads as query heads alone";
  if (p.self && !s.self) return "the subject takes a memory other than x alone";
  if (!p.self && !s.cross) return "the subject does self-attention alone";
  return std::nullopt;
}

Clause declined_option(const Problem& p, const Supports& s) {
  if (p.has_in_biases() && !s.in_biases) return "the subject takes no b_q, b_k and b_v";
  if (!p.has_in_biases() && !s.no_in_biases) return "the subject needs b_q, b_k and b_v";
  if (p.has_out_bias() && !s.out_bias) return "the subject takes no b_out";
  if (!p.has_out_bias() && !s.no_out_bias) return "the subject needs b_out";
  if (p.causal && !s.causal) return "the subject takes no causal mask";
  if (p.causal && p.align == Align::top_left && !s.top_left)
    return "the subject takes no diagonal from the top left corner";
  if (p.causal && p.align == Align::bottom_right && !s.bottom_right)
    return "the subject takes no diagonal from the bottom right corner";
  if (p.bias != Bias::none && !s.bias) return "the subject takes no bias of scores";
  if (p.has_keep() && !s.keep) return "the subject takes no keep mask";
  if (p.has_lengths() && !s.kv_lengths) return "the subject takes no key lengths";
  if (!p.scale) return std::nullopt;
  if (s.scale == Supports::Scale::only_default) return "the subject takes the default scale alone";
  if (s.scale == Supports::Scale::positive && !(*p.scale > 0)) return "the subject takes positive scales alone";
  return std::nullopt;
}

// Returns why the subject takes no tensor in this layout whose rows have `width` elements.
Clause declined_layout(std::string_view tensor, Layout layout, Index width, const Problem& p, const Supports& s) {
  const bool plain = layout == Layout::contiguous || layout == Layout::odd_base;
  if (s.strides == Strides::contiguous && !plain)
    return fmt::format("the subject takes contiguous tensors alone, also as {}", tensor);
  if (s.strides == Strides::last_dim_contiguous && (layout == Layout::spaced || layout == Layout::transposed))
    return fmt::format("the subject takes tensors with a contiguous last axis alone, also as {}", tensor);
  if (layout == Layout::far && !s.far)
    return fmt::format("the subject takes offsets of 32 bits alone, also in {}", tensor);
  const bool off = layout == Layout::odd_base || layout == Layout::padded_rows || layout == Layout::slice ||
                   layout == Layout::transposed || width % row_step(s.alignment, p.dtype) != 0;
  if (s.alignment > 1 && off)
    return fmt::format("the subject takes rows that begin at multiples of {} bytes alone, also in {}", s.alignment,
                       tensor);
  return std::nullopt;
}

}  // namespace

Supports Supports::everything() {
  Supports all;
  all.far = true;
  return all;
}

const Contract& Offer::contract(Format dtype, const std::string& subject) const {
  const auto found = std::ranges::find(dtypes, dtype);
  if (found == dtypes.end())
    throw usage_error(
        fmt::format("{} does not offer dtype {} for mha: it has {}", subject, name(dtype), names_of(dtypes)));
  return contracts.at(static_cast<std::size_t>(found - dtypes.begin()));
}

std::optional<std::string> declined(const Problem& p, const Supports& s, std::span<const Format> dtypes) {
  if (std::ranges::find(dtypes, p.dtype) == dtypes.end())
    return fmt::format("the subject does not offer dtype {}", name(p.dtype));
  if (auto why = declined_shape(p, s)) return why;
  if (auto why = declined_option(p, s)) return why;
  return declined_memory(p, s);
}

std::optional<std::string> declined_memory(const Problem& p, const Supports& s) {
  // Keep over [b,1,1,m] is a tensor that broadcasts.
  if (s.strides == Strides::contiguous && p.padding == Padding::scattered)
    return "the subject takes contiguous tensors alone, also as keep";
  if (s.strides == Strides::contiguous && (p.bias == Bias::shared || p.bias == Bias::minus_inf))
    return "the subject takes contiguous tensors alone, also as bias";
  if (auto why = declined_layout("x", p.x_layout, p.e, p, s)) return why;
  if (!p.self)
    if (auto why = declined_layout("memory", p.memory_layout, p.e, p, s)) return why;
  if (auto why = declined_layout("w_q, w_k and w_v", p.weight_layout, p.e, p, s)) return why;
  if (auto why = declined_layout("w_out", p.weight_layout, p.q_width(), p, s)) return why;
  return declined_layout("out", p.out_layout, p.e, p, s);
}

}  // namespace attest::mha
