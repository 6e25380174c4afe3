#pragma once
#include <string>
#include <string_view>

#include "core/contract.hpp"
#include "core/problem.hpp"

namespace attest::ops::of_attention {

// Names the optional tensors that a call has beside q, k and v, and the variable that holds its result.
struct NumpyCall {
  bool bias, keep, lengths;
  bool finite_values;  // no NaN or infinity in V
  std::string_view result;
};
// NumPy from the scaled products `s` of q and K on: softcap, bias, masks, softmax, the mean of V, empty rows as the
// contract has them, only the lines that the problem needs. K and V have as many heads as q; `k` is there for its
// shape.
std::string numpy_lines(const attest::Problem& problem, const attest::Contract& contract, const NumpyCall& call);

}  // namespace attest::ops::of_attention
