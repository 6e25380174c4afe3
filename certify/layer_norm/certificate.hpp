#pragma once
#include <string>
#include <vector>

#include "certify/certificate.hpp"
#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/problem.hpp"

namespace attest::certify::layer_norm {

// A result of a kernel for an element of out, or of sum_out, as a reproducer states it.
struct Claim {
  enum class Tensor : std::uint8_t { out, sum_out };
  Tensor tensor = Tensor::out;
  Index row = 0, column = 0;
  double value = 0;
};

struct Certificate {
  Answer answer = Answer::undecided;
  std::string why;                        // one clause
  std::string exact, lo, hi;              // the element's value and interval; empty where no number is asked for
  double rounded_lo = 0, rounded_hi = 0;  // the ends in the tensor's type
  std::int64_t bits = 0;                  // precision in which it was decided
  std::string arithmetic;
  std::vector<Figure> figures;  // numbers of the row, named as in docs/layer-norm.md
};

// Judges the claim by the interval of docs/layer-norm.md in ball arithmetic, first in `first_bits` and, while the
// answer is uncertain, with doubled precision up to `most_bits`. Throws Error(usage) for an index outside the tensor, a
// value that is no number of its type, and the errors of materialise().
Certificate certify(const attest::layer_norm::Contract& contract, const attest::layer_norm::Problem& problem,
                    const Claim& claim);

}  // namespace attest::certify::layer_norm
