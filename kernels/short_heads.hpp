#pragma once
#include "kernels/call.hpp"

namespace attest::kernels {

// Heads of few rows of few keys, a row a lane, whichever head and sample it is of: many such heads cost their calls otherwise. The
// bits are those of the other ways.
// Whether the heads of a call are of this kind: f32 from the scores to the sum of values, and no more numbers a row than what a
// call would cost.
bool are_short_heads(const Call& call) noexcept;

// How many rows are taken at once, heads one behind the other and samples outermost; at most.
inline constexpr Index short_heads_at_once = 64;
// Heads with no more rows than that.
inline Index heads_at_once(const Call& call) noexcept { return short_heads_at_once / call.lq; }

// Attends for rows [first, first + count) in that order and writes them. `divide`: as of attend_short_rows(). False, and nothing
// written: a closed key's value is infinite or NaN. Uses the thread's Scratch<float>. Throws std::bad_alloc.
bool attend_short_heads(const Call& call, Index first, Index count, bool divide);

}  // namespace attest::kernels
