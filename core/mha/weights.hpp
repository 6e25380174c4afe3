#pragma once
#include <vector>

#include "core/mha/problem.hpp"

namespace attest::mha {

// Everything but the masks, row by row, in numbers that the problem's dtype holds.
struct Values {
  std::vector<double> x, memory;             // memory is empty for self-attention
  std::vector<double> w_q, w_k, w_v, w_out;  // [rows][columns]
  std::vector<double> b_q, b_k, b_v, b_out;  // made whether or not the problem has them
};
Values draw_values(const Problem& problem);

}  // namespace attest::mha
