#include "engine/key.hpp"

#include <algorithm>
#include <cctype>

namespace attest::engine {
namespace {

constexpr std::size_t longest_class = 48;

// Names the sides at fault: a fault of one of two subjects is none of the other.
std::string side_at_fault(const std::vector<Side>& sides) {
  if (sides.size() != 2 || (!sides[0].outside && !sides[1].outside)) return {};
  return std::string("-of-") + (sides[0].outside ? "a" : "") + (sides[1].outside ? "b" : "");
}

bool is_quote(char c) { return c == '\'' || c == '"' || c == '`'; }
bool is_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

std::string_view class_of(Wrong wrong) {
  switch (wrong) {
    case Wrong::nan:
    case Wrong::infinity:
      return "nonfinite";
    case Wrong::memory:
      return "memory";
    case Wrong::finite:
      return "finite";
    case Wrong::none:
      break;
  }
  return "other";
}

}  // namespace

std::string message_class(std::string_view message) {
  // The place where it was raised, and where to read more, are no part of the message.
  const std::string_view aside =
      message.ends_with(')') ? message.substr(std::min(message.rfind(" ("), message.size())) : "";
  if (aside.starts_with(" (at ") || aside.starts_with(" (traceback in ")) message.remove_suffix(aside.size());
  std::string result;
  for (const std::string_view whose : {"A: ", "B: "})  // prefixes that name one of two subjects
    if (message.starts_with(whose)) result = whose == "A: " ? "a" : "b";
  std::string word;
  bool plain = true;  // the word so far holds letters only
  const auto flush = [&] {
    if (plain && word.size() > 1 && result.size() + word.size() < longest_class)
      result += (result.empty() ? "" : "-") + word;
    word.clear();
    plain = true;
  };
  for (std::size_t i = 0; i < message.size(); ++i) {
    const char c = message[i];
    if (is_quote(c)) {
      // A quoted part names a value of this case; an apostrophe inside a word does not open one.
      const std::size_t end = word.empty() ? message.find(c, i + 1) : std::string_view::npos;
      flush();
      if (end != std::string_view::npos) i = end;
    } else if (is_word(c)) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (std::isdigit(static_cast<unsigned char>(c)) || c == '/' || c == '\\') {
      plain = false;  // a number, an address, a path
      word += c;
    } else {
      flush();
    }
  }
  flush();
  return result.empty() ? "none" : result;
}

FailureKey key_of(std::string_view property, const Verdict& verdict) {
  FailureKey key{std::string(property), verdict.kind, {}};
  if (verdict.evidence)
    key.what = std::string(class_of(verdict.evidence->wrong)) + side_at_fault(verdict.evidence->sides) +
               (verdict.evidence->as_probed ? "-as-probed" : "");
  else
    key.what = message_class(verdict.reason);
  return key;
}

std::string to_text(const FailureKey& key) { return key.property + "/" + std::string(name(key.kind)) + "/" + key.what; }

}  // namespace attest::engine
