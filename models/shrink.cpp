#include "models/shrink.hpp"

#include <utility>

namespace attest::models {
namespace {

// `changed`, which differs from `from` by some lengths or ways to make inputs, has these of `problem`, too, where they
// were those of `from`.
graph::Problem changed_alike(const graph::Problem& problem, const graph::Problem& from, const graph::Problem& changed) {
  graph::Problem other = problem;
  for (auto& [axis, size] : other.sizes)
    if (size == from.sizes.at(axis)) size = changed.sizes.at(axis);
  for (auto& [input, regime] : other.values)
    if (regime == from.values.at(input)) regime = changed.values.at(input);
  return other;
}

std::vector<Shrunk> simpler(const graph::Family& family, const Shrunk& from) {
  std::vector<Shrunk> found;
  for (graph::Problem& problem : family.simpler(from.problem)) {
    Shrunk alike = from;
    for (graph::Problem& one : alike.after) one = changed_alike(one, from.problem, problem);
    alike.problem = problem;
    const bool differs = alike.after != from.after;
    found.push_back(std::move(alike));
    if (!differs) continue;
    found.push_back(from);
    found.back().problem = std::move(problem);
  }
  for (std::size_t i = 0; i < from.after.size(); ++i)
    for (graph::Problem& problem : family.simpler(from.after[i])) {
      found.push_back(from);
      found.back().after[i] = std::move(problem);
    }
  return found;
}

}  // namespace

Shrunk shrink(const graph::Family& family, const Shrunk& from, std::int64_t calls,
              const std::function<bool(const Shrunk&)>& still_fails) {
  Shrunk best = from;
  for (bool changed = true; changed;) {
    changed = false;
    for (Shrunk& candidate : simpler(family, best)) {
      const auto asked = static_cast<std::int64_t>(candidate.after.size()) + 1;
      if (best.calls + asked > calls) return best;
      best.calls += asked;
      if (!still_fails(candidate)) continue;
      candidate.calls = best.calls;
      best = std::move(candidate);
      changed = true;
      break;
    }
  }
  best.minimal = true;
  return best;
}

}  // namespace attest::models
