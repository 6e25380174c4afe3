#include "core/format.hpp"

namespace attest {

std::string names_of(std::span<const Format> formats) {
  std::string text;
  for (const Format format : formats) text += (text.empty() ? "" : ", ") + std::string(name(format));
  return text;
}

std::string choice_of(std::span<const Format> formats) {
  return names_of(formats.first(formats.size() - 1)) + " or " + std::string(name(formats.back()));
}

std::optional<Format> format_from_name(std::string_view text) noexcept {
  const auto found = std::ranges::find(formats, text, &FormatTraits::name);
  if (found == formats.end()) return std::nullopt;
  return static_cast<Format>(found - formats.begin());
}

}  // namespace attest
