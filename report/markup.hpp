#pragma once
#include <string>
#include <string_view>

namespace attest::report {

// Escapes text for HTML and XML, within elements and within quoted attributes, whatever it holds: names and messages
// are a stranger's. A code that XML has no character for, or that turns the direction of a line, becomes U+FFFD; so
// does a byte that is no UTF-8.
std::string escaped(std::string_view text);

}  // namespace attest::report
