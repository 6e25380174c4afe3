#pragma once
#include <string>
#include <string_view>

namespace attest::report {

// The look of a report on the terminal.
struct Look {
  bool colour = false;   // bold and colours: escape sequences among the text
  bool verbose = false;  // statistics behind the findings
};

// A part of a report that stands out.
enum class Part { failed, held, title, command };

// The text as it is, or in the style of that part where there is colour.
std::string painted(const Look& look, Part part, std::string_view text);

}  // namespace attest::report
