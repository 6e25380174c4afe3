#include "report/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/text.hpp"

namespace attest::report {

std::string calibration_text(const oracle::Calibration& calibration) {
  std::string text = fmt::format("{:<40}{:>9}{:>13}{:>9}{:>8}{:>8}{:>8}{:>9}{:>9}\n", "policy and class", "results",
                                 "elements", "lambda", "T 50 %", "99 %", "99.9 %", "largest", "fails at");
  std::int64_t elements = 0, results = 0;
  double lambda = 0;
  for (const auto& [name, policy] : calibration.policies) {
    text += fmt::format("{}: at most {:.1f} % of a kernel's results lie above the 99 % of their class\n", name,
                        100 * policy.share);
    for (const auto& [values, cell] : policy.classes) {
      const auto limit = oracle::largest_t(cell);
      text += fmt::format("  {:<38}{:>9}{:>13}{:>9.2f}{:>8.2f}{:>8.2f}{:>8.2f}{:>9.3g}{:>9}\n", values,
                          grouped(static_cast<std::uint64_t>(cell.results)),
                          grouped(static_cast<std::uint64_t>(cell.elements)), cell.lambda, cell.t50, cell.t99,
                          cell.t999, cell.t, limit ? fmt::format("{:.3g}", *limit) : "-");
      elements += cell.elements;
      results += cell.results;
      lambda = std::max(lambda, cell.lambda);
    }
  }
  return text + fmt::format("{} elements of {} results; no element needs more than lambda {:.2f}\n",
                            grouped(static_cast<std::uint64_t>(elements)), grouped(static_cast<std::uint64_t>(results)),
                            lambda);
}

}  // namespace attest::report
