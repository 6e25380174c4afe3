#pragma once
#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>

namespace attest {

// Exact hexadecimal text of a double, "0x1.8p+3"; "nan", "inf", "-inf" otherwise. The same on every C library.
std::string hex_float(double value);
// Reads hexadecimal or decimal; nullopt if `text` is not wholly a number.
std::optional<double> parse_double(std::string_view text) noexcept;

// nullopt if `text` is not wholly a decimal number that the type holds.
template <std::integral Integer>
std::optional<Integer> parse_whole(std::string_view text) noexcept {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace attest
