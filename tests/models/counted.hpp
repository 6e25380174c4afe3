#pragma once
#include <cstdint>
#include <string>

#include "graph/problem.hpp"
#include "models/laws.hpp"
#include "models/runtime.hpp"

namespace attest::models::test {

// The verdicts of one law on a runtime over problems of a model.
struct Counted {
  int held = 0, failed = 0, skipped = 0, vacuous = 0;
  std::string first;  // failure or skip
};

// `law(asking)`, a LawResult, of each problem, whose inputs have at most `most_elements` elements.
template <class Law>
Counted count_results(const graph::Model& model, Runtime& runtime, const std::string& level,
                      const std::string& precision, std::uint64_t seed, std::uint64_t problems, Index most_elements,
                      const Law& law) {
  const Part part = part_of_model(model);
  const graph::Family family(*part.program);
  Counted counted;
  for (std::uint64_t number = 0; number < problems; ++number) {
    const graph::Problem problem = family.draw(seed, number, most_elements);
    Case one(part, family.feeds(problem), graph::precision_from_text(precision), problem.seed);
    const LawResult result = law(Asking{one, runtime, {level}});
    counted.held += result.kind == VerdictKind::pass;
    counted.failed += is_finding(result.kind);
    counted.skipped += result.kind == VerdictKind::skip;
    counted.vacuous += result.kind == VerdictKind::vacuous;
    if (counted.first.empty() && (is_finding(result.kind) || result.kind == VerdictKind::skip))
      counted.first = to_text(problem) + ": " + result.reason;
  }
  return counted;
}

}  // namespace attest::models::test
