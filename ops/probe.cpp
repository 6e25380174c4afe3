#include "ops/probe.hpp"

#include <fmt/format.h>

namespace attest::ops {

std::string_view name(Standing standing) noexcept {
  constexpr std::string_view names[] = {"agrees", "unsaid", "open", "contradicts"};
  return names[static_cast<int>(standing)];
}

std::string cannot_tell(std::string_view reason) { return fmt::format("cannot tell ({})", reason); }

bool holds(Format outer, Format inner) noexcept {
  return precision(outer) >= precision(inner) && largest_finite(outer) >= round_to(outer, largest_finite(inner)) &&
         min_exponent(outer) <= min_exponent(inner);
}

std::string format_in_words(std::optional<Format> at_least, std::optional<Format> at_most, std::string_view reason) {
  if (at_least && at_most && *at_least == *at_most) return std::string(name(*at_least));
  if (at_least && at_most) return fmt::format("from {} to {}", name(*at_least), name(*at_most));
  if (at_least) return fmt::format("not narrower than {}", name(*at_least));
  if (at_most) return fmt::format("{} or narrower", name(*at_most));
  return cannot_tell(reason);
}

}  // namespace attest::ops
