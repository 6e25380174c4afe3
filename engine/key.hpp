#pragma once
#include <string>
#include <string_view>

#include "core/verdict.hpp"

namespace attest::engine {

// The facts that make two failures the same while a case shrinks: a candidate counts only if it fails with an equal
// key.
struct FailureKey {
  std::string property;
  VerdictKind kind = VerdictKind::fail;
  std::string
      what;  // class of the wrong value ("finite", "nonfinite", "memory"), or of the message of error, crash, timeout
  friend bool operator==(const FailureKey&, const FailureKey&) = default;
};

// The key of a verdict for which is_finding() holds.
FailureKey key_of(std::string_view property, const Verdict& verdict);

// "property/kind/what".
std::string to_text(const FailureKey& key);

// The class of a message: its first words in lower case, without numbers, addresses, paths and quoted parts, so that
// two reports of one cause agree. At most 48 characters of [a-z-].
std::string message_class(std::string_view message);

}  // namespace attest::engine
