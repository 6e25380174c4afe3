#pragma once
#include "core/problem.hpp"
#include "generators/domain.hpp"
#include "generators/source.hpp"

namespace attest {

// Draws the numbers of a problem whose dtype and shape are set: distribution, amplitude and forms of q, k and v, scale,
// softcap and seed. Regimes in which a bound says little by nature (wide, huge, extreme amplitudes and scales) come to
// less than 5 % together.
void draw_values(Problem& problem, const Domain& domain, Source& source);

// Draws whether the first key and its value are 0, for a subject that asks for such problems.
void draw_null_key(Problem& problem, const Domain& domain, Source& source);

// Draws anew what is in q, k and v: all but scale and softcap.
void redraw_values(Problem& problem, const Domain& domain, Source& source);

}  // namespace attest
