#pragma once
#include <functional>
#include <vector>

#include "core/problem.hpp"
#include "generators/draw.hpp"

namespace attest::test {

inline std::vector<Problem> draw_many(const Domain& domain, std::uint64_t seed, std::uint64_t count) {
  std::vector<Problem> problems;
  problems.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) problems.push_back(draw_problem(domain, seed, i, 1));
  return problems;
}

// The share of problems for which `holds`.
inline double share(const std::vector<Problem>& problems, const std::function<bool(const Problem&)>& holds) {
  std::size_t count = 0;
  for (const Problem& problem : problems) count += holds(problem) ? 1 : 0;
  return static_cast<double>(count) / static_cast<double>(problems.size());
}

}  // namespace attest::test
