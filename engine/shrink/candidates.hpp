#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "core/subject.hpp"
#include "core/verdict.hpp"

namespace attest::engine {

// What every candidate must keep to: what the subject supports, and what the campaign assumes.
struct ShrinkLimits {
  Supports supports;
  std::vector<Format> dtypes;                          // empty: the dtype stays
  std::function<bool(const Problem&)> admissible;      // empty: everything is
};

// Brings dependent fields into line (hq a multiple of hkv, no edits outside their tensor, dv = d where the subject wants it,
// multiples it asks for); nullopt if the result is no problem within the limits.
std::optional<Problem> fit(Problem problem, const ShrinkLimits& limits);

struct Candidate {
  Problem problem;
  std::string change;  // "lk: 33 -> 1"
};

// The neighbours of a problem, simplest first within each field of the table: what the last pass of shrink() tries before it
// calls a problem minimal, and what rapidcheck's shrinking tries. Every one is simpler than `problem`; none is equal to it.
std::vector<Candidate> neighbours(const Problem& problem, const ShrinkLimits& limits);

// Big jumps for a fresh failure, best first: the witness's sample, head and row; options reset; all dimensions capped.
std::vector<Candidate> jumps(const Problem& problem, const std::optional<Evidence>& witness, const ShrinkLimits& limits);

}  // namespace attest::engine
