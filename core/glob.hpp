#pragma once
#include <string_view>

namespace attest {

// Tells whether `text` matches `pattern`, in which * stands for any run of characters and ? for any one.
constexpr bool glob_matches(std::string_view pattern, std::string_view text) noexcept {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] != '*' && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Tells whether `text` matches one of `patterns`, which commas separate.
constexpr bool any_glob_matches(std::string_view patterns, std::string_view text) noexcept {
  while (true) {
    const std::size_t comma = patterns.find(',');
    if (glob_matches(patterns.substr(0, comma), text)) return true;
    if (comma == std::string_view::npos) return false;
    patterns.remove_prefix(comma + 1);
  }
}

}  // namespace attest
