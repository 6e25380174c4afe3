#pragma once
#include <algorithm>

#include "kernels/call.hpp"
#include "kernels/parallel.hpp"

namespace attest::kernels {

// Heads of few rows of few keys, a row in a lane, whichever head and sample it is of: many such heads otherwise cost a
// call each. The bits are those of the other ways.
// Tells whether the heads of a call are of this kind: f32 from the scores to the sum of values, and no more numbers a
// row than a call would cost.
bool are_short_heads(const Call& call) noexcept;

// The largest number of rows that are taken at once, heads one behind the other and samples outermost.
inline constexpr Index short_heads_at_once = 64;

// Attends for rows [first, first + count) in that order and writes them. `divide` is that of attend_short_rows().
// Returns false, with nothing written, where a closed key's value is infinite or NaN. Uses the thread's Scratch<float>.
// Throws std::bad_alloc.
bool attend_short_heads(const Call& call, Index first, Index count, bool divide);

// Attends for all heads of a call of this kind. Calls attend(b, h) for each head that is left to the other ways.
template <class Attend>
void attend_all_short_heads(const Call& call, int threads, bool divide, const Attend& attend) {
  const Index heads = call.b * call.hq, some = short_heads_at_once / call.lq;
  for_each_task((heads + some - 1) / some, threads, [&](Index task) {
    const Index at = task * some, end = std::min(heads, at + some);
    if (attend_short_heads(call, at * call.lq, (end - at) * call.lq, divide)) return;
    for (Index head = at; head < end; ++head) attend(head / call.hq, head % call.hq);
  });
}

}  // namespace attest::kernels
