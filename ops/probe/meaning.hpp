#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/probe/questions.hpp"
#include "ops/probe/shown.hpp"

namespace attest::ops::probing {

// A possible meaning of an observed number: the number is taken for the first of these that it is near to.
struct Meaning {
  double value;
  std::string words;
};
bool near(double a, double b) noexcept;
// "NaN", or `what` "1.5 where 2 is meant", where it is near to none; the first is what is meant.
std::string meaning_of(double value, const std::vector<Meaning>& meanings, const std::string& what = "");
// The row of one call off which a number is read, and what that may mean; the first is what is promised.
ProbeRow by_meaning(const Asked& asked, std::string stage, const Problem& problem, const Read& read,
                    const std::vector<Meaning>& meanings, const std::string& what = "");

// The row that says how out is rounded to 16 bits. `make` gives a call whose exact result is so many quarters of a unit
// above 1, and reads the result.
using Quarters = std::function<std::optional<std::pair<Problem, Read>>(int quarters)>;
ProbeRow output_rounding(const Asked& asked, const Quarters& make, std::string_view unasked);

}  // namespace attest::ops::probing
