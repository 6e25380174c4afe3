#include "core/error.hpp"

#include <algorithm>

namespace attest {
namespace {

constexpr std::size_t longest_line = 2000, kept_at_end = 600;

std::string as_sentence(std::string text) {
  if (text.size() > longest_line)
    text = text.substr(0, longest_line - kept_at_end) + " ... " + text.substr(text.size() - kept_at_end);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

}  // namespace

Error::Error(Exit exit, const std::string& sentence) : std::runtime_error(as_sentence(sentence)), exit_(exit) {}

}  // namespace attest
