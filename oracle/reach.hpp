#pragma once
#include "oracle/call.hpp"
#include "oracle/row.hpp"

// Upper bounds of the part that section 4 of docs/bounds.md adds around the box, for proofs that an enclosure leaves
// something out.
namespace attest::oracle {

// Upper bounds of all numbers that section 4 reads of a row of n keys: of their errors e and d, of |z| + e, and of
// ln_n, r and a2.
struct RowBounds {
  Index n;
  double e, d, z, ln_n, r, a2;
  bool far = false;  // there may be keys that these leave aside, so far below the maximum that they weigh nothing
  [[nodiscard]] RowNumbers numbers(const Numbers& m) const;
};

// Rows of small problems mostly have no more keys, errors and scores than these.
inline constexpr Index few_keys = 64;
inline constexpr double few_keys_e = 1, few_keys_d = 1, few_keys_z = 64;
// largest_reach() of such a row, or more. Worked out once per thread as long as the contract stays the same.
double few_keys_reach(const Call& call, double max_abs);

}  // namespace attest::oracle
