#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "core/rng.hpp"

namespace attest {

// Far more draws than any assumption needs that leaves a domain worth testing.
inline constexpr std::uint64_t most_attempts = 10'000;
// The most draws of other contents for a plan until the assumption permits one.
inline constexpr std::uint64_t most_redraws = 100;

// Returns the first result of draw(shape_key, rest_key, attempt) that the domain's predicates accept, with the number
// of those before it; keys change from attempt to attempt. draw may return a std::optional: nothing where it knows
// itself that the predicates turn the problem away. Throws Error(usage) if none of `most_attempts` is accepted.
template <class Drawing, class Domain, class Draw>
Drawing draw_until_accepted(const Domain& domain, std::uint64_t shape_key, std::uint64_t rest_key, const Draw& draw) {
  for (std::uint64_t attempt = 0; attempt < most_attempts; ++attempt) {
    std::optional drawn = draw(shape_key, rest_key, attempt);
    if (drawn && domain.accepts(*drawn)) {
      auto& problem = *drawn;
      if (const auto why = declined(problem, domain.supports(), domain.dtypes()))
        throw internal_error("a problem was drawn that is not to be asked, " + *why + ": " + to_text(problem));
      return {std::move(problem), attempt};
    }
    shape_key = mix(shape_key);
    rest_key = mix(rest_key);
  }
  throw usage_error("none of " + std::to_string(most_attempts) +
                    " problems drawn satisfies the assumption: widen --assume");
}

// Returns the plan's problem with other contents, from redraw(problem, Source): the plan as it is where the predicates
// accept none of `most_redraws`. Counts the problems that they turned away, the plan's too.
template <class Drawing, class Domain, class Redraw>
Drawing redraw_until_accepted(const Domain& domain, Drawing planned, std::uint64_t rest_key, const Redraw& redraw) {
  for (std::uint64_t attempt = 0; attempt < most_redraws; ++attempt, rest_key = mix(rest_key)) {
    auto problem = planned.problem;
    redraw(problem, rest_key);
    if (domain.accepts(problem)) return {std::move(problem), planned.rejected + attempt};
  }
  planned.rejected += most_redraws;
  return planned;
}

}  // namespace attest
