#include "models/shrink.hpp"

namespace attest::models {

Shrunk shrink(const graph::Family& family, const graph::Problem& problem, std::int64_t calls,
              const std::function<bool(const graph::Problem&)>& still_fails) {
  Shrunk best{problem};
  for (bool changed = true; changed;) {
    changed = false;
    for (const graph::Problem& candidate : family.simpler(best.problem)) {
      if (best.calls >= calls) return best;
      ++best.calls;
      if (!still_fails(candidate)) continue;
      best.problem = candidate;
      changed = true;
      break;
    }
  }
  best.minimal = true;
  return best;
}

}  // namespace attest::models
