#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "core/subject.hpp"

namespace attest::engine {

// What every candidate must keep to: what the subject supports, and what the campaign assumes.
struct ShrinkLimits {
  Supports supports;
  std::vector<Format> dtypes;                      // empty: the dtype stays
  std::function<bool(const Problem&)> admissible;  // empty: everything is
};

// Brings what depends on a changed field into line: options of a mask that is gone, edits outside their tensor, dv = d and
// multiples where the subject wants them. nullopt if the result is no problem within the limits, or is `from` itself.
std::optional<Problem> fit(const Problem& from, Problem changed, const ShrinkLimits& limits);

// A number of a problem that may shrink on its own: the integers of the field table, with the heads of a group moved together.
struct Dimension {
  std::string_view name;
  Index simplest;
  Index (*get)(const Problem&);
  void (*set)(Problem&, Index);
};
const std::vector<Dimension>& dimensions();

// Sets a dimension, keeping the part of it that holds `witness` ([b, h, i] of the wrong element).
using Witness = std::array<Index, 3>;
Problem narrowed(Problem problem, const Dimension& dimension, Index n, const Witness& witness);

struct Candidate {
  Problem problem;
  std::string change;  // "lk: 33 -> 1"
};

// The neighbours of a problem, simplest first within each field: what the last pass of shrink() tries before it calls a
// problem minimal, and what rapidcheck's shrinking tries. Every one is simpler than `problem` in one respect.
std::vector<Candidate> neighbours(const Problem& problem, const ShrinkLimits& limits);
// The same by field: those of step `step` of steps(), the dimensions first, in the order of dimensions().
std::size_t steps();
std::vector<Candidate> neighbours(std::size_t step, const Problem& problem, const ShrinkLimits& limits);

// A tiny problem with rows of q, k and v, then single elements, set to zero by edits. Empty for larger problems, for tensors
// that lie in memory otherwise than contiguously, and for elements that are 0 or 1 already.
std::vector<Candidate> zeroed_elements(const Problem& problem);

// A problem on captured activations as one that stands alone: q, k and v zero but for an edit per element. nullopt for other
// problems, and for one with more than `most` elements of q, k and v.
std::optional<Problem> literal(const Problem& problem, Index most);
inline constexpr Index most_shrunk_literals = 128;

// ---- jumps: larger changes, for a fresh failure ------------------------------------------------------------------------

// Every dimension at most `most`. Around `witness` ([b, h, i] of the wrong element) where given, keeping its coordinates.
Problem capped(Problem problem, Index most, const std::optional<Witness>& witness);
// One row of one head, of `samples` samples, keeping the witness's coordinates.
Problem sliced(Problem problem, Index samples, const Witness& witness);

// Groups of fields that mean little to each other, reset to their simplest together.
enum class Group : std::uint8_t { masks, layouts, outputs, scaling, values };
inline constexpr std::array all_groups{Group::masks, Group::layouts, Group::outputs, Group::scaling, Group::values};
std::string_view name(Group group) noexcept;
Problem reset(Problem problem, Group group);

}  // namespace attest::engine
