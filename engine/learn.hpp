#pragma once
#include <cstdint>
#include <span>

#include "engine/predicate.hpp"

namespace attest::engine {

// What a predicate says of the problems that were asked: how many fail where it holds, and how many where it does not.
struct Separation {
  std::uint64_t failing = 0, asked = 0;                // where it holds
  std::uint64_t failing_elsewhere = 0, elsewhere = 0;  // where it does not
  friend bool operator==(const Separation&, const Separation&) = default;
};

struct Learned {
  Predicate predicate;
  Separation counts;
  double bits = 0;  // by which it shortens the description of what fails; 0 if nothing does
};

struct LearnOptions {
  bool pure = false;           // no problem that passes may lie inside
  std::size_t most_atoms = 3;  // the longest conjunction
};

// The conjunction that best separates failing from passing problems: that with the shortest description of which problems
// fail, its own length included (minimum description length; Rissanen 1978). Greedy: single comparisons and all pairs of
// the best, and longer ones from the best pairs. Depends on the arguments alone. It holds of every one of `anchors`, rows
// that are known to show the failure; they are not counted.
Learned learn(std::span<const Row* const> failing, std::span<const Row* const> passing,
              std::span<const Row* const> anchors, const LearnOptions& options);

Separation separation(const Predicate& predicate, std::span<const Row* const> failing,
                      std::span<const Row* const> passing);

}  // namespace attest::engine
