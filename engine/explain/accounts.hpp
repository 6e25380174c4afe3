#pragma once
#include <optional>
#include <set>
#include <string>

#include "engine/check.hpp"
#include "engine/corpus.hpp"
#include "engine/explain/explain.hpp"

namespace attest::engine {

// Kernels that give every byte of what a subject gives on some problems, while the same kernels give other bytes
// without what is wrong with them: planted faults by their names ("fault:causal-corner"), right kernels in other
// formats than were declared by their names and the words of the departure.
struct Accounts {
  std::set<std::string> kernels;
  int problems = 0;  // the number asked
};

// The accounts of the entry's problem, and of that problem before it was shrunk if it is here and small enough. No
// subject is an account of itself. Returns nullopt where a call is not answered or too large, or the entry's laws do
// not fail: nothing can be told then. `limits`: hypothesis_work bounds the work of all kernels together on each
// problem.
std::optional<Accounts> accounts_of(const Entry& entry, Bench bench, const ExplainLimits& limits);

}  // namespace attest::engine
