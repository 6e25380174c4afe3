#include "engine/shrink/options.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace attest::engine {
namespace {

// One bit for each option that a problem has.
std::uint32_t options_of(const Problem& p) noexcept {
  std::uint32_t options = 0;
  int bit = 0;
  const auto has = [&](bool there) { options |= static_cast<std::uint32_t>(there) << bit++; };
  has(p.causal);
  has(p.window_left >= 0);
  has(p.window_right >= 0);
  has(p.keep != Keep::none);
  has(p.bias != Bias::none);
  has(closes_keys(p.bias));
  has(p.bias_type != BiasType::same);
  for (const Index axis : {1, 2, 4, 8}) {
    has(p.keep != Keep::none && !(p.keep_axes & axis));
    has(p.bias != Bias::none && !(p.bias_axes & axis));
  }
  has(p.lengths != Lengths::none);
  has(p.hq != p.hkv);
  has(p.scale.has_value());
  has(p.effective_scale() == 0);
  has(p.effective_scale() < 0);
  has(p.softcap != 0);
  for (const Layout layout : {p.q_layout, p.k_layout, p.v_layout, p.out_layout, p.mask_layout}) {
    has(layout != Layout::bhsd);
    has(off_boundary(layout));
  }
  has(p.lse != LseOutput::none);
  has(p.threads != 0);
  return options;
}

}  // namespace

bool adds_option(const Problem& from, const Problem& to) noexcept {
  const auto lacks = [&](const FormChoice& form) { return std::ranges::find(from.forms, form) == from.forms.end(); };
  return (options_of(to) & ~options_of(from)) != 0 || std::ranges::any_of(to.forms, lacks);
}

}  // namespace attest::engine
