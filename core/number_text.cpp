#include "core/number_text.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

namespace attest {

// printf's %a is free to choose the leading digit, so the digits are written here.
std::string hex_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const auto bits = std::bit_cast<std::uint64_t>(value);
  std::string text = (bits >> 63) ? "-0x" : "0x";
  const int biased = static_cast<int>((bits >> 52) & 0x7ff);
  std::uint64_t fraction = bits & 0xfffffffffffffu;
  if (biased == 0 && fraction == 0) return text + "0p+0";
  int exponent = biased == 0 ? -1022 : biased - 1023;
  if (biased == 0) {  // normalise a subnormal
    while (!(fraction >> 52)) fraction <<= 1, --exponent;
    fraction &= 0xfffffffffffffu;
  }
  text += '1';
  if (fraction != 0) {
    text += '.';
    for (int shift = 48; fraction != 0; shift -= 4) {
      text += "0123456789abcdef"[(fraction >> shift) & 0xf];
      fraction &= (std::uint64_t{1} << shift) - 1;
    }
  }
  return text + (exponent < 0 ? "p-" : "p+") + std::to_string(exponent < 0 ? -exponent : exponent);
}

std::optional<double> parse_double(std::string_view text) noexcept {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  auto format = std::chars_format::general;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    format = std::chars_format::hex;
  }
  if (text.empty() || text.front() == '-' || text.front() == '+') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, format);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return negative ? -value : value;
}

}  // namespace attest
