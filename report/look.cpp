#include "report/look.hpp"

#include <fmt/color.h>

namespace attest::report {

std::string painted(const Look& look, Part part, std::string_view text) {
  if (!look.colour || text.empty()) return std::string(text);
  using fmt::emphasis, fmt::terminal_color;
  switch (part) {
    case Part::failed:
      return fmt::format(emphasis::bold | fg(terminal_color::red), "{}", text);
    case Part::held:
      return fmt::format(emphasis::bold | fg(terminal_color::green), "{}", text);
    case Part::title:
      return fmt::format(emphasis::bold, "{}", text);
    case Part::command:
      return fmt::format(fg(terminal_color::cyan), "{}", text);
  }
  return std::string(text);
}

}  // namespace attest::report
