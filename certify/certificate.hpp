#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/contract.hpp"
#include "core/problem.hpp"

namespace attest::certify {

// A result of a kernel, as a reproducer states it.
struct Claim {
  enum class Tensor : std::uint8_t { out, lse };
  Tensor tensor = Tensor::out;
  std::array<Index, 4> index{};  // [b, h, i, column]; lse uses the first three
  double value = 0;
  // Asks the law `hull` in place of the interval: is the value a weighted mean of the attended values, however
  // weighted?
  bool hull = false;
};

enum class Answer : std::uint8_t {
  stands,     // proven: no implementation that keeps the contract can return the value
  falls,      // the bound permits the value, or anything
  undecided,  // not even with the most bits
};
std::string_view name(Answer answer) noexcept;

// A number of the proof to 20 digits, named as in docs/bounds.md.
struct Figure {
  std::string name, text;
};

struct Certificate {
  Answer answer = Answer::undecided;
  std::string why;                        // one clause
  std::string exact, lo, hi;              // the element's value and interval; empty where no number is asked for
  double rounded_lo = 0, rounded_hi = 0;  // the ends in the tensor's type
  Format stage = Format::f32,
         tensor = Format::f32;  // the formats that a result is rounded to: the output stage's, then the tensor's
  std::int64_t bits = 0;        // precision in which it was decided
  std::string arithmetic;
  std::vector<Figure> constants, row;
  struct Key {
    Index key;
    std::string z, e, d;  // score, its error, that of ln of the weight
  };
  std::vector<Key> keys;
  struct Way {
    std::string name, t, x, g;
    std::string t_top, top;  // t of the key with the largest score, and the least share of the mean of |v| that it has
  };
  std::vector<Way> ways;  // that the contract permits of making an output
};

inline constexpr std::int64_t first_bits = 256, most_bits = 8192;

// Judges the claim by the interval of docs/bounds.md in ball arithmetic, first in `first_bits` and, while the answer is
// uncertain, with doubled precision up to `most_bits`. Throws Error(usage) for an index outside the tensor, a value
// that is no number of its type or the hull of a log-sum-exp, and the errors of materialise().
Certificate certify(const Contract& contract, const Problem& problem, const Claim& claim);

}  // namespace attest::certify
