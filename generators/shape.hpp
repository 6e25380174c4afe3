#pragma once
#include "core/problem.hpp"
#include "generators/domain.hpp"
#include "generators/source.hpp"

namespace attest {

// Draws b, hq, hkv, lq, lk, d and dv of a problem whose dtype is set. The work W = B Hq Lq Lk (D + Dv) comes first:
// log-uniform in [1, 2^16] in 90 % of problems, [1, 2^22] in 9.9 %, [1, 2^28] in 0.1 %; then the dimensions share it,
// each biased towards the edges of the field table. 1 stands for the work of the domain's smallest problem. `size`
// (0..100) scales the logarithm of the work. One problem in 40 has a width (64, 80, 96, 128, 256) and a group of heads
// (4, 8) of production, and work of 2^13 to 2^21; half of these have one query and rows as long as that allows.
// `large_batch` asks for a batch past 65,535, everything else at most 2, where the domain has one.
// Returns false, with a problem that is not drawn to its end, where the domain accepts none of so little work.
bool draw_shape(Problem& problem, const Domain& domain, Source& source, int size, bool large_batch);

// Draws the number of rows of out that are judged: all of them unless the problem is large.
void draw_rows(Problem& problem, Source& source);

}  // namespace attest
