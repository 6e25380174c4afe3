#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "graph/program.hpp"

namespace attest::graph::test {

// What graph problems are made of, by a hash of `seed` alone.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t bits();
  Index below(Index n);
  Index among(const std::vector<Index>& values) {
    return values[static_cast<std::size_t>(below(static_cast<Index>(values.size())))];
  }

 private:
  std::uint64_t seed_, count_ = 0;
};

// Floats in one of eleven regimes: normal (twice as often), uniform, offsets up to 1e4 (f16: 500), magnitudes over 24 octaves,
// large, 1e-20 (f16: 1e-3), small integers, one constant, four of five 0.
Array values(Draw& draw, Type type, std::vector<Index> shape);

// The models of tests/graph/models.
const std::vector<std::string>& models();
Model model(const std::string& name);
// Open sizes and inputs for one of them.
Feeds problem(const std::string& name, const Model& model, std::uint64_t seed);

}  // namespace attest::graph::test
