#include "core/layer_norm/offer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/layer_norm/inputs.hpp"
#include "core/supports.hpp"

namespace attest::layer_norm {

Supports Supports::everything() {
  Supports all;
  all.rows.min = 0;
  all.far = true;
  return all;
}

Contract Offer::contract(Format dtype, const std::string& subject) const {
  const auto found = std::ranges::find(dtypes, dtype);
  if (found == dtypes.end())
    throw usage_error(
        fmt::format("{} does not offer dtype {} for layer_norm: it has {}", subject, name(dtype), names_of(dtypes)));
  const auto index = static_cast<std::size_t>(found - dtypes.begin());
  Contract contract = semantics;
  contract.policy = policies.at(index);
  if (!arithmetic.empty()) contract.arithmetic = arithmetic.at(index);
  return contract;
}

std::optional<std::string> declined(const Problem& p, const Supports& s, std::span<const Format> dtypes) {
  if (std::ranges::find(dtypes, p.dtype) == dtypes.end())
    return fmt::format("the subject does not offer dtype {}", name(p.dtype));
  if (!s.rows.offers(p.rows)) return fmt::format("the subject takes rows {}", text_of(s.rows));
  if (!s.hidden.offers(p.hidden)) return fmt::format("the subject takes hidden {}", text_of(s.hidden));
  if (p.norm == Norm::layer && !s.layer) return "the subject does RMSNorm alone";
  if (p.norm == Norm::rms && !s.rms) return "the subject does LayerNorm alone";
  if (p.residual != Residual::none && !s.residual) return "the subject takes no residual";
  if (p.sum_out && !s.sum_out) return "the subject gives no sum_out";
  if (p.gamma != Weights::none && !s.gamma) return "the subject takes no gamma";
  if (p.beta != Weights::none && !s.beta) return "the subject takes no beta";
  if (p.residual == Residual::none && !s.no_residual) return "the subject needs a residual";
  if (p.gamma == Weights::none && !s.no_gamma) return "the subject needs gamma";
  if (p.beta == Weights::none && !s.no_beta) return "the subject needs beta";
  const bool params = p.gamma != Weights::none || p.beta != Weights::none;
  if (params && p.param_format() != p.dtype && !s.param_f32)
    return fmt::format("the subject takes gamma and beta in x's dtype alone, not f32 beside {}", name(p.dtype));
  if (params && p.param_format() == p.dtype && p.dtype != Format::f32 && !s.param_same)
    return "the subject takes gamma and beta in f32 alone";
  return declined_memory(p, s);
}

std::optional<std::string> declined_memory(const Problem& p, const Supports& s) {
  const auto of_layout = [&](std::string_view tensor, Layout layout) -> std::optional<std::string> {
    const bool plain = layout == Layout::contiguous || layout == Layout::odd_base;
    const bool contiguous_rows = plain || layout == Layout::padded_rows || layout == Layout::slice ||
                                 layout == Layout::far || layout == Layout::broadcast;
    if (s.strides == Strides::contiguous && !plain)
      return fmt::format("the subject takes contiguous tensors alone, also as {}", tensor);
    if (s.strides == Strides::last_dim_contiguous && !contiguous_rows)
      return fmt::format("the subject takes tensors with a contiguous last axis alone, also as {}", tensor);
    if (layout == Layout::far && !s.far)
      return fmt::format("the subject takes offsets of 32 bits alone, also in {}", tensor);
    const bool off = layout == Layout::odd_base || layout == Layout::padded_rows || layout == Layout::slice ||
                     layout == Layout::transposed || p.hidden % row_step(s.alignment, p.dtype) != 0;
    if (s.alignment > 1 && off)
      return fmt::format("the subject takes rows that begin at multiples of {} bytes alone, also in {}", s.alignment,
                         tensor);
    return std::nullopt;
  };
  if (auto why = of_layout("x", p.x_layout)) return why;
  if (p.residual != Residual::none)
    if (auto why = of_layout("residual", p.residual_layout)) return why;
  if (p.gamma != Weights::none || p.beta != Weights::none)
    if (auto why = of_layout("gamma and beta", p.param_layout)) return why;
  return of_layout("out", p.out_layout);
}

}  // namespace attest::layer_norm
