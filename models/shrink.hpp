#pragma once
#include <cstdint>
#include <functional>

#include "graph/problem.hpp"

namespace attest::models {

struct Shrunk {
  graph::Problem problem;
  std::int64_t calls = 0;
  bool minimal = false;  // every simpler neighbour was tried
};

// The smallest problem in reach, by changes of Family::simpler, for which `still_fails` holds; at most `calls` are asked.
Shrunk shrink(const graph::Family& family, const graph::Problem& problem, std::int64_t calls,
              const std::function<bool(const graph::Problem&)>& still_fails);

}  // namespace attest::models
