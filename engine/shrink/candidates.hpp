#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/ops.hpp"

namespace attest::engine {

// The limits of every candidate: the subject's supports, and the campaign's assumption.
struct ShrinkLimits {
  Supports supports;
  std::vector<Format> dtypes;                      // empty: the dtype stays
  std::function<bool(const Problem&)> admissible;  // empty: everything is
};

// Brings what depends on a changed field into line: options of a mask that is gone, edits outside their tensor, dv = d
// and multiples where the subject wants them. nullopt if the result is no problem within the limits, is `from` itself,
// differs from it only in where it was cut out, or adds an option to `failing`: the problem that shrinking began with.
std::optional<Problem> fit(const Problem& from, Problem changed, const ShrinkLimits& limits, const Problem& failing);
inline std::optional<Problem> fit(const Problem& from, Problem changed, const ShrinkLimits& limits) {
  return fit(from, std::move(changed), limits, from);
}

// The neighbours of a problem, simplest first within each field: the last pass of shrink() tries them before it calls a
// problem minimal, and so does rapidcheck's shrinking. Every one is simpler than `problem` in one respect.
std::vector<Candidate> neighbours(const Problem& problem, const ShrinkLimits& limits);
// The same by field: those of step `step` of steps(), the dimensions first, in the order of Op::dimensions().
std::size_t steps(const Op& op);
std::vector<Candidate> neighbours(std::size_t step, const Problem& problem, const ShrinkLimits& limits);

// Tells whether `to` has an option that `from` lacks: causality, a window, a mask, a bias that closes keys where none
// did, a scale that is not positive, rows off their boundary, a form. A reproducer may differ from the problem that
// failed in the value of an option, never in its presence: another defect may hide in an option that was not there.
bool adds_option(const Problem& from, const Problem& to) noexcept;

// ---- escapes: for a problem with no simpler neighbour that fails ----------------------------------------------------

// Shapes of fewer multiply-adds, smallest first by kind: every dimension at its least, one of them, two keys alone, one
// dimension half as large, or smaller by one step.
std::vector<Problem> smaller_shapes(const Problem& problem, const Supports& supports);

}  // namespace attest::engine
