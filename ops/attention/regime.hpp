#pragma once
#include "core/problem.hpp"

namespace attest::ops::of_attention {

using attest::Problem;

// The regime that masks and values amount to, computed from a problem line without its tensors. It comes from a sample
// of rows and keys, spread evenly over those that are judged, as many as cost little, and its bits are the same
// everywhere. A row that was not looked at may be different.

// The keys that are open to rows that have any: lengths, diagonal, window, keep and a bias of -inf close the others.
struct Masking {
  double open_keys = 0;       // the count in the row that sees fewest; lk where there is no row
  double least_row_bias = 0;  // the largest bias of a row's open keys, where that is least; 0 without bias
  bool mask_closes = false;   // some row does not see some key for another reason than a bias
  bool closed_keys = false;   // some row does not see some key
  bool last_key = false;      // some row has the last key between its bounds, which are length, diagonal and window
  bool biased = false;        // a bias other than 0 is added to some open key's score
};
Masking masking_of(const Problem& problem);

// Scores as they enter softmax; a softcap is taken for a clamp, since tanh is no function of IEEE 754.
struct Scores {
  double least_row_max = 0, largest_row_max = 0;  // over rows with an open key
  double largest_spread = 0;                      // between two scores of one row
  double largest_product = 0;                     // |q.k| of an open key, before the scale
  // The most by which a closed key's score exceeds the largest open one of its row, over rows with an open key and keys
  // that no bias of -inf closes. A kernel that adds a finite number to closed scores shows it from there on.
  double closed_lead = 0;
};
Scores scores_of(const Problem& problem);

struct ValueRange {
  double least = 0, largest = 0;
  bool zero_row = false;  // a key whose value is zero throughout
};
ValueRange values_of(const Problem& problem);

}  // namespace attest::ops::of_attention
