#pragma once
#include "certify/row.hpp"

namespace attest::certify {

// The kind of number that is required, whatever its size.
enum class Expect : std::uint8_t { number, nan, nonfinite, minus_infinity };

// The ends that no weighted mean of values lies beyond, and the largest magnitude of the values.
struct Hull {
  Ball lo, hi, largest;
};
Hull hull_of(const std::vector<Intervals::Element>& values);

// The least and the largest mean of values over the box of a row's weights (docs/bounds.md, section 3), with `extra`
// more in every d, and the largest mean of magnitudes.
struct Means {
  Ball least, most, mean_abs;
};
Means means_of(const Row& row, const Ball& extra, const std::vector<Intervals::Element>& values);

// One permitted way of making an output of the weights (docs/bounds.md, section 4), and what it adds around the box.
struct Way {
  const char* name = "";
  Ball t, x, g;
  Ball absolute;    // the part of x that no magnitude scales
  Ball t_top, top;  // t of the key with the largest score, and the least share of the mean of |v| that it has
  Ball extra;       // the addition to every d
  Ball shared;      // the part of t of the one rounding of a weight for all columns
  Ball x_apart;     // x without it
  Means means;
};

// The values that one element may have if the kernel keeps its contract, before it is rounded to the tensor's type.
struct Enclosure {
  Ball y, lo, hi;  // the exact value; a finite one that conforms lies in [lo, hi]
  Expect expect = Expect::number;
  Permission nonfinite;     // NaN and infinities are permitted too
  Permission undetermined;  // a finite value is not judged
  bool zero_ok = false;     // 0 is permitted too
  bool empty_row = false;
  std::vector<Way> ways;
};

// Element [b, h, i, column] of out: sections 3 to 5.
Enclosure out_enclosure(const Constants& c, const Contract& contract, const Inputs& inputs, const Row& row,
                        std::array<Index, 4> place, const Operands* operands = nullptr);
// Returns the interval that holds a finite value whatever became of the row's weights: the hull of the attended values
// widened by section 4, with 0 where the sum of the weights may be infinite or every key lost. NaN and infinities are
// permitted.
Enclosure hull_enclosure(const Constants& c, const Contract& contract, const Inputs& inputs, const Row& row,
                         std::array<Index, 4> place);
// The row's log-sum-exp: section 4b.
Enclosure lse_enclosure(const Constants& c, const Row& row);

}  // namespace attest::certify
