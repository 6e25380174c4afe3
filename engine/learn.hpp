#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/predicate.hpp"

namespace attest::engine {

// The separation of the problems that were asked by a predicate: how many fail where it holds, and how many where it
// does not.
struct Separation {
  std::uint64_t failing = 0, asked = 0;                // where it holds
  std::uint64_t failing_elsewhere = 0, elsewhere = 0;  // where it does not
  friend bool operator==(const Separation&, const Separation&) = default;
};

struct Learned {
  Predicate predicate;
  Separation counts;
  double bits = 0;       // by which it shortens the description of what fails; 0 if nothing does
  double atom_bits = 0;  // the bits of one comparison
};

struct LearnOptions {
  bool pure = false;                // no problem that passes may lie inside
  std::size_t most_atoms = 3;       // the longest conjunction
  std::size_t most_needs = 4;       // comparisons of a minimal problem
  std::uint64_t least_failing = 3;  // failures that a conjunction must hold of: fewer have too much in common by chance
  // The least saving of a further comparison, as a share of the bits beyond `free_bits` of the whole description: with
  // many failures any coincidence pays.
  double least_share = 0.08, free_bits = 64;
  bool of_layout = false;                   // the failures are of the law `layout`: `other_layout` means something
  std::span<const Trait> table = traits();  // the rows' traits; the learner does not ask how they are computed
};

// The conjunction that best separates failing from passing problems: that with the shortest description of which
// problems fail, its own length included (minimum description length; Rissanen 1978). Greedy: single comparisons and
// all pairs of the best, and longer ones from the best pairs. Depends on the arguments alone. It holds of every one of
// `anchors`, rows that are known to show the failure; they are not counted.
Learned learn(std::span<const Row* const> failing, std::span<const Row* const> passing,
              std::span<const Row* const> anchors, const LearnOptions& options);

// Learns from a minimal problem alone. Returns the fewest comparisons, `most_needs` at most, that hold of it and of all
// failures, and of none of its neighbours that pass. Among equals it prefers those that leave out most neighbours,
// those that pass with other numbers (`values`) included, then those of fields and forms, and then those that hold of
// fewest of `passing`; bounds that are no integers come only where they are needed. No atoms if there are none such.
Learned learn_from_neighbours(std::span<const Row* const> failing, std::span<const Row* const> passing,
                              const Row& minimal, std::span<const Row> neighbours, std::span<const Row> values,
                              const LearnOptions& options);

// At most 4,096 of the rows, spread evenly: enough to learn from. The predicate is then counted on all.
std::vector<const Row*> thinned_out(const std::vector<const Row*>& rows);

// `passing`, thinned out, and the neighbours of a minimal problem that pass. A neighbour that differs in more than its
// numbers (`options`) weighs as several: one tells the needs of a minimal problem, and others pass for many reasons.
// Points into all three.
std::vector<const Row*> with_neighbours(const std::vector<const Row*>& passing, std::span<const Row> options,
                                        std::span<const Row> values);

// Bits that tell which rows fail, given what one or two predicates say of each: their own length, and for every
// combination of answers how many rows fail and which. An empty predicate says nothing, at no cost.
double description_bits(std::span<const Predicate* const> predicates, std::span<const Row* const> failing,
                        std::span<const Row* const> passing, double atom_bits);

Separation separation(const Predicate& predicate, std::span<const Row* const> failing,
                      std::span<const Row* const> passing);

}  // namespace attest::engine
