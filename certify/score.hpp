#pragma once
#include <vector>

#include "certify/constants.hpp"
#include "certify/operands.hpp"

namespace attest::certify {

// A row of q or k.
struct Vector {
  explicit Vector(const std::vector<double>& the_values);
  Vector(const Intervals& tensor, Index b, Index h, Index i);
  std::vector<Ball> values, radii;  // no radii: 0
  bool finite = true, has_nan = false;
  Ball largest;  // magnitude of the largest finite element
  Ball sum_abs;  // sum of the magnitudes of the finite elements
};

// The score of one key: exact, and how far off a computed one can be (docs/bounds.md, section 1).
struct Score {
  Ball z, e;
  // Some conforming computation meets an infinity on the way (section 5): `early` before the last softcap, which makes
  // a finite number of it, `late` after it.
  bool early = false, late = false;
  Ball raw, raw_error;  // q.k as it may be stored before it is scaled
  [[nodiscard]] bool overflows() const { return early || late; }
};

// q and k finite; `bias` is 0 where there is none, finite or, where the contract applies the softcap last, -infinity.
Score score_of(const Constants& c, const Vector& q, const Vector& k, double bias);

}  // namespace attest::certify
