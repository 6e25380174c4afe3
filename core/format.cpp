#include "core/format.hpp"

#include "attest/plugin.h"

namespace attest {

std::string_view name(Format format) noexcept { return format_names[static_cast<std::size_t>(format)]; }

std::string names_of(std::span<const Format> formats) {
  std::string text;
  for (const Format format : formats) text += (text.empty() ? "" : ", ") + std::string(name(format));
  return text;
}

std::optional<Format> format_from_name(std::string_view text) noexcept {
  for (std::size_t i = 0; i < format_names.size(); ++i)
    if (format_names[i] == text) return static_cast<Format>(i);
  return std::nullopt;
}

double decode_f16(std::uint16_t bits) noexcept { return static_cast<double>(attest_f16_load(bits)); }
double decode_bf16(std::uint16_t bits) noexcept { return static_cast<double>(attest_bf16_load(bits)); }

}  // namespace attest
