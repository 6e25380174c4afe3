#pragma once
#include "kernels/call.hpp"

namespace attest::kernels {

// Rows of few keys, a row in a lane: as many rows as registers have lanes share the cost of a row beside its products.
// The bits are those of the other ways.
// Tells whether rows of a call are of this kind: f32 from the scores to the sum of values, and at most 12 keys.
bool has_short_rows(const Call& call) noexcept;
// Tells whether a block of `rows` query rows is: several of them.
inline constexpr Index short_rows_min = 4;
bool are_short_rows(const Call& call, Index rows) noexcept;

// Attends for rows [i0, i0 + rows) of head h of sample b, and writes them. `divide`: weights are divided by their sum,
// the values' sum otherwise. Returns false, with nothing written, where a closed key's value is infinite or NaN, or
// there is no key; these are left to the other ways. Uses the thread's Scratch<float>. Throws std::bad_alloc.
bool attend_short_rows(const Call& call, Index b, Index h, Index i0, Index rows, bool divide);

}  // namespace attest::kernels
