#pragma once
#include <cstdint>
#include <deque>
#include <utility>

#include "core/rng.hpp"

namespace attest::ensemble {

// Draws of a problem of any operation, with their inputs, kept for the samples that refer to them.
template <class Problem>
class Redraws {
 public:
  struct Drawn {
    Problem problem;
    decltype(materialise(std::declval<const Problem&>())) inputs;
  };
  explicit Redraws(const Problem& problem) : problem_(problem) {}

  // Draw n: 0 is the problem itself, the others have values of another seed.
  const Drawn& operator()(int n) {
    Problem problem = problem_;
    if (n > 0) problem.seed = mix(problem.seed + static_cast<std::uint64_t>(n)) >> 33;
    drawn_.push_back({problem, materialise(problem)});
    return drawn_.back();
  }

 private:
  const Problem& problem_;
  std::deque<Drawn> drawn_;
};

}  // namespace attest::ensemble
