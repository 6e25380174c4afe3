#pragma once
#include <string>
#include <vector>

#include "certify/certificate.hpp"
#include "certify/mha/block.hpp"
#include "core/mha/problem.hpp"

namespace attest::certify::mha {

// A result of a block, as a reproducer states it: element [b, token, element] of out, [b, token, column] of the
// concatenated heads, or [b, head, token, column] of a projection.
struct Claim {
  enum class Tensor : std::uint8_t { out, q, k, v, heads };
  std::array<Index, 4> index{};
  double value = 0;
  Tensor tensor = Tensor::out;
};

struct Certificate {
  Answer answer = Answer::undecided;
  std::string why;        // one clause, of the first way if the claim stands
  std::int64_t bits = 0;  // in which it was decided
  std::string arithmetic;
  // The answer of each way that the contract permits, in the order of goings_of(). Empty ends: no number is asked for.
  struct Way {
    Going going;
    Answer answer;
    std::string exact, lo, hi;
    double rounded_lo = 0, rounded_hi = 0;  // the ends in the tensor's type
  };
  std::vector<Way> ways;
};

// Judges the claim by the interval of docs/mha.md in ball arithmetic, first in `first_bits` and, while the answer is
// uncertain, with doubled precision up to `most_bits`. It stands if it does for every way that the contract permits.
// Heads are those of all projections of the inputs that the contract permits, not those of a block's own projections.
// Throws Error(usage) for an index outside the tensor, a value of out that is no number of its type, and the errors of
// materialise().
Certificate certify(const Contract& contract, const attest::mha::Problem& problem, const Claim& claim);

}  // namespace attest::certify::mha
