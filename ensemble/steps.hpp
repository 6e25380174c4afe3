#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ensemble/standing.hpp"

namespace attest::ensemble {

// Members of a first look, and of the last.
inline constexpr int few_members = 16, many_members = 256;
// Draws of a problem's values.
inline constexpr int draws = 3;
// Limits of values that cannot be drawn again: one draw must show what three would.
inline constexpr Limits of_one_draw{3, std::numeric_limits<double>::infinity()};

// The outcome for one result.
struct Outcome {
  Which found;               // the statistics that are beyond their limits in every draw, among many members
  Limits limits;             // these
  std::size_t elements = 0;  // that counted, in the first draw
  int members = 0;           // the most that were asked of one draw
  std::vector<double> r, e;  // of each draw that was asked
  Standing::Element worst;   // of the first draw
  std::string nearest;       // scheme of the member nearest to the result, likewise
};

// The subject's result on draw n of the problem's values, 0 being its own, and the members of that draw.
using Draw = std::function<Sample(int n)>;

// (a) up to `few_members` on the problem itself; (b) the same on two further draws; (c) up to `many_members` on each. Each asks only
// what the one before left. `again`: whether values can be drawn again; else it is (a) and (c) of one draw, by its own limits.
// `briefly`: (a) alone, and what it leaves is found.
Outcome ask(const Draw& draw, bool again, bool briefly);

// The evidence's note: both statistics of each draw, the largest element and the nearest member.
std::string in_words(const Outcome& outcome);

}  // namespace attest::ensemble
