#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "graph/problem.hpp"

namespace attest::models {

struct Shrunk {
  graph::Problem problem;
  std::int64_t calls = 0;
  bool minimal = false;                 // every simpler neighbour was tried
  std::vector<graph::Problem> after{};  // problems that must be asked before, in order
};

// The smallest problem in reach, by changes of Family::simpler, for which `still_fails` holds; at most `calls` are
// asked. Problems that must be asked before, `from.after`, change along with it, by themselves, or stay.
Shrunk shrink(const graph::Family& family, const Shrunk& from, std::int64_t calls,
              const std::function<bool(const Shrunk&)>& still_fails);

}  // namespace attest::models
