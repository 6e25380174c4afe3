#pragma once
#include <string>

#include "engine/summary.hpp"
#include "report/look.hpp"

namespace attest::report {

// The defects of a campaign: the first few in full, the rest in a line or two each.
std::string defects_text(const engine::Summary& summary, const Look& look = {});

// The headline of a defect: "wrong numbers in out where scale!=1 (law policy-bound)".
std::string headline(const engine::Summary& summary, const engine::Defect& defect);

// A reproducer small enough for a sentence: "one query, two keys, causal: row 0 sees key 0 alone, v = 3; got 1.5, the
// mean of both". Empty for others.
std::string in_words(const engine::Entry& entry);

// Neighbours of a minimal problem that pass, those that tell most first: one less of a dimension, then options. "lk: 65
// -> 64, causal: 1 -> 0"; empty where the problem is not minimal.
std::string neighbours_that_pass(const engine::Entry& entry);

// The keys that take part in the witness's row, "0, 2..4 of 7", where a mask tensor or lengths decide that; else empty.
std::string open_keys(const engine::Entry& entry);

// The scale, cap and amplitude of a problem in decimal, where its text has them in hexadecimal; empty without any.
std::string decimals(const ops::Problem& problem);

}  // namespace attest::report
