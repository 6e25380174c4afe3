#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "graph/problem.hpp"

namespace attest::graph::test {

// Numbers by a hash of `seed` alone.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t bits();
  Index below(Index n);

 private:
  std::uint64_t seed_, count_ = 0;
};

// The models of tests/graph/models.
const std::vector<std::string>& models();
Model model(const std::string& name);

}  // namespace attest::graph::test
