#pragma once
#include <string>
#include <string_view>

namespace attest::report {

// Text for HTML and XML, within elements and within quoted attributes, whatever it holds: names and messages are a stranger's. What
// XML has no character for, and what turns the direction of a line, becomes U+FFFD; so does what is no UTF-8.
std::string escaped(std::string_view text);

}  // namespace attest::report
