#include "core/verdict.hpp"

namespace attest {

std::string_view name(VerdictKind kind) noexcept {
  constexpr std::array<std::string_view, 10> names{"pass",    "warn",     "fail",  "error", "crash",
                                                   "timeout", "poisoned", "flaky", "skip",  "vacuous"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(Wrong wrong) noexcept {
  constexpr std::array<std::string_view, 5> names{"none", "finite", "nan", "infinity", "memory"};
  return names[static_cast<std::size_t>(wrong)];
}

}  // namespace attest
