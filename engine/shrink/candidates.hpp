#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/field.hpp"
#include "core/subject.hpp"

namespace attest::engine {

// What every candidate must keep to: what the subject supports, and what the campaign assumes.
struct ShrinkLimits {
  Supports supports;
  std::vector<Format> dtypes;                      // empty: the dtype stays
  std::function<bool(const Problem&)> admissible;  // empty: everything is
};

// Brings what depends on a changed field into line: options of a mask that is gone, edits outside their tensor, dv = d and
// multiples where the subject wants them. nullopt if the result is no problem within the limits, is `from` itself, differs
// from it only in where it was cut out, or adds an option to `failing`: the problem that shrinking began with.
std::optional<Problem> fit(const Problem& from, Problem changed, const ShrinkLimits& limits, const Problem& failing);
inline std::optional<Problem> fit(const Problem& from, Problem changed, const ShrinkLimits& limits) {
  return fit(from, std::move(changed), limits, from);
}

// The wrong element, [b, h, i, column].
using Witness = std::array<Index, 4>;

// What a dimension may be on its way down, as the subject takes it: least, least + unit, ...
struct Rungs {
  Index least = 1, unit = 1;
  // How many lie between `least`, which may be -1, and n; one fewer where n is the largest number there is.
  [[nodiscard]] Index steps(Index n) const noexcept {
    Index above = 0;
    return (__builtin_sub_overflow(n, least, &above) ? std::numeric_limits<Index>::max() : above) / unit;
  }
  // The lowest that is not below n.
  [[nodiscard]] Index up(Index n) const noexcept {
    return n <= least ? least : least + (n - least + unit - 1) / unit * unit;
  }
};

// A number of a problem that may shrink on its own: the integers of the field table, with the heads of a group moved together.
struct Dimension {
  std::string_view name;
  Index simplest;
  Index (*get)(const Problem&);
  void (*set)(Problem&, Index);
  Rungs (*rungs)(const Problem&, const Supports&) = nullptr;              // nullptr: all from `simplest` up
  Problem (*narrow)(Problem, Index n, const Witness& witness) = nullptr;  // nullptr: as set()
  bool other_way = false;  // of what others count already: cut at its front, or two by the same amount
};
const std::vector<Dimension>& dimensions();
Rungs rungs(const Dimension& dimension, const Problem& problem, const Supports& supports);

// Sets a dimension, keeping the part of it that holds the witness.
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

// Every dimension at most `most`, or the least above it that the subject takes. Around the witness where given, keeping its
// coordinates.
Problem capped(Problem problem, Index most, const std::optional<Witness>& witness, const Supports& supports);
// The last `n` keys, or coordinates of q and k, alone.
Problem last_keys(Problem problem, Index n);
Problem last_coordinates(Problem problem, Index n);
// One element of one row of one head, of `samples` samples, or as few as the subject takes, keeping the witness's coordinates.
Problem sliced(Problem problem, Index samples, const Witness& witness, const Supports& supports);

// Groups of fields that are reset together, in this order; with the values go edits and origins.
inline constexpr std::array reset_groups{FieldGroup::masks,   FieldGroup::layouts, FieldGroup::outputs,
                                         FieldGroup::scaling, FieldGroup::forms,   FieldGroup::values};
Problem reset(Problem problem, FieldGroup group);

// Whether `to` has an option that `from` lacks: causality, a window, a mask, a bias that closes keys where none did, a scale
// that is not positive, rows off their boundary, a form. A reproducer may differ from the problem that failed in the value of an
// option, never in its presence: another defect may hide in an option that was not there.
bool adds_option(const Problem& from, const Problem& to) noexcept;

// ---- escapes: for a problem with no simpler neighbour that fails -------------------------------------------------------

// Shapes of fewer multiply-adds, smallest first by kind: every dimension at its least, one of them, two keys alone, one
// dimension half as large, or smaller by one step.
std::vector<Problem> smaller_shapes(const Problem& problem, const Supports& supports);

struct Escape : Candidate {
  bool drawn = false;   // drawn numbers decide whether it fails, so that many samples of it are worth one call
  bool likely = false;  // shows most of what any shows
};
// Problems of a shape that may show what larger ones did: other values, those of the `original`, its scale and log-sum-exp if it
// has them (by which a single key tells scores and weights apart), masks of the same kind that close whole rows.
std::vector<Escape> escapes(const Problem& shape, const Problem& original);
// A problem with many more samples and columns, within reason.
Problem sampled(Problem problem);

}  // namespace attest::engine
