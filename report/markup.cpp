#include "report/markup.hpp"

#include <cstddef>
#include <cstdint>

namespace attest::report {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

// The code point that begins at `at` and how many bytes it takes; 0 bytes where there is none (overlong, a surrogate,
// cut off).
struct Point {
  std::uint32_t value;
  std::size_t bytes;
};
Point point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(at);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + bytes > text.size()) return {0, 0};
  std::uint32_t value = first & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80) return {0, 0};
    value = value << 6U | (byte(at + i) & 0x3FU);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < least[bytes] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return {0, 0};
  return {value, bytes};
}

bool is_plain(std::uint32_t c) {
  if (c < 0x20) return c == '\n' || c == '\t';
  const bool control = c >= 0x7F && c < 0xA0;
  const bool turns =
      c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  const bool no_character = (c & 0xFFFEU) == 0xFFFE || (c >= 0xFDD0 && c <= 0xFDEF);
  return !control && !turns && !no_character;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    const auto [value, bytes] = point_at(text, at);
    if (bytes == 0 || !is_plain(value))
      out += replacement;
    else if (value == '&')
      out += "&amp;";
    else if (value == '<')
      out += "&lt;";
    else if (value == '>')
      out += "&gt;";
    else if (value == '"')
      out += "&quot;";
    else if (value == '\'')
      out += "&#39;";
    else
      out += text.substr(at, bytes);
    at += bytes == 0 ? 1 : bytes;
  }
  return out;
}

}  // namespace attest::report
