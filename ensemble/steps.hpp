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

// The outcome for one result.
struct Outcome {
  bool found = false;        // R is beyond its limit in every draw, among many members
  std::size_t elements = 0;  // elements that counted, in the first draw
  int members = 0;           // the most that were asked of one draw
  std::vector<double> r;     // one for each draw that was asked
  Standing::Element worst;   // in the first draw
  std::string nearest;       // scheme of the member nearest to the result, likewise
};

// The subject's result on draw n of the problem's values, 0 being its own, and the members of that draw.
using Draw = std::function<Sample(int n)>;

// (a) up to `few_members` on the problem itself; (b) the same on two further draws; (c) up to `many_members` on each.
// Each asks only what the one before left.
Outcome ask(const Draw& draw);

// The evidence's note: R of each draw, the element farthest beyond the members and the nearest member.
std::string in_words(const Outcome& outcome);

}  // namespace attest::ensemble
