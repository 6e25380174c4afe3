#pragma once
#include <algorithm>
#include <cstdint>

#include "core/problem.hpp"
#include "core/values.hpp"

namespace attest {

// The distribution of one of q, k and v: Values, as one of a few formulas of an element's own 64 bits, and its numbers.
struct Distribution {
  // n(x) is normal() of bits x, i(x) below() of `choices`.
  enum class Kind : std::uint8_t {
    constant,   // factor
    lattice,    // factor (i - offset) unit
    octaves,    // +-2^(i - offset)
    normal,     // n unit factor
    affine,     // factor (offset + n unit)
    one_sided,  // factor (1 + |n|)
    quotient,   // factor n / unit
    largest,    // +-unit (1/2 .. 1)
    outlier,    // factor n in one column of eight, n in the others
    along,      // d (1 + n unit), d = +-1 by column
    peaked,     // factor d (1 + n unit) in a dominant row, one in eight; offset n in others
  };
  // The replacement of column 0, if any: `offset` where it is given.
  enum class First : std::uint8_t { same, given, sign, rising, choice, end_of_queries, end_of_keys, level };
  Kind kind = Kind::normal;
  First first = First::same;
  bool in_pairs = false;  // rows 2 n and 2 n + 1 are alike
  double factor = 1, offset = 0, unit = 1;
  std::uint64_t choices = 1;  // below 2^32
  std::uint64_t columns = 0;  // key of what depends on the column
};

// Returns the distribution of `which`: q, k or v. The problem is not captured.
Distribution distribution_of(const Problem& problem, Edit::Tensor which) noexcept;

// Returns the largest exponent of numbers whose exponents are drawn from far apart.
constexpr int value_reach(Format format) noexcept {
  return std::min(max_exponent(format) - 3, narrower(Format::f32, format) ? 200 : 60);
}

// Returns an upper bound of all magnitudes; infinite where none is known.
double largest_magnitude(const Distribution& distribution) noexcept;

// Draws `rows` as draw_block() of core/values.hpp does, but for forms and what they are clamped to.
void draw_from(const Distribution& distribution, const Problem& problem, Edit::Tensor which, const DrawnBlock& block,
               double* rows) noexcept;

}  // namespace attest
