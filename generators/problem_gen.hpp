#pragma once
#include <functional>
#include <iosfwd>
#include <vector>

#include <rapidcheck/Gen.h>

#include "core/problem.hpp"
#include "generators/domain.hpp"

namespace attest {

// Simpler problems to try in place of one that fails, best first.
using Candidates = std::function<std::vector<Problem>(const Problem&)>;

// The problems of draw_problem() as a RapidCheck generator, one 64-bit key for the shape and one for the rest taken
// from RapidCheck's stream. Shrinks by `candidates`, not at all without.
rc::Gen<Problem> problem_gen(const Domain& domain, Candidates candidates = {});

// Prints a counterexample for RapidCheck: the problem text.
void showValue(const Problem& problem, std::ostream& out);

}  // namespace attest
