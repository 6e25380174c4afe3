#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "core/verdict.hpp"
#include "engine/ops.hpp"
#include "engine/shrink/candidates.hpp"
#include "engine/timed.hpp"

namespace attest::engine {

struct ShrinkBudget {
  std::int64_t calls = 1000;                // subject calls
  std::optional<double> seconds;            // absent where the result must not depend on the machine
  const std::atomic<bool>* stop = nullptr;  // once set, the budget has ended
  Clock clock = machine_seconds;            // by which `seconds` are counted
};

// The answer of one trial of a candidate.
struct Trialled {
  std::optional<Verdict> failure;  // set if it fails with the key that is being shrunk
  std::int64_t subject_calls = 0;
};
using Try = std::function<Trialled(const Problem&)>;

struct ShrinkStep {
  Problem best;
  Verdict verdict;
  std::int64_t calls = 0;  // subject calls so far
  std::string change;      // the accepted change, such as "lk: 33 -> 1"
};

struct Shrunk {
  Problem minimal;
  Verdict verdict;
  std::int64_t calls = 0;
  bool complete = false;                // every neighbour was tried; false when the budget ended first
  std::vector<std::string> neighbours;  // the change that leads to each; none fails with the same key
};

// Shrinks `problem`, which fails with `verdict`, until a whole pass accepts nothing or the budget ends: jumps from
// above and below, then field by field. Deterministic where the budget has no seconds and `attempt` is. `accepted` (may
// be empty) is called with every new best.
Shrunk shrink(const Problem& problem, const Verdict& verdict, const Try& attempt, const ShrinkLimits& limits,
              const ShrinkBudget& budget, const std::function<void(const ShrinkStep&)>& accepted = {});

}  // namespace attest::engine
