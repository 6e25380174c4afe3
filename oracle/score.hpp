#pragma once
#include "oracle/numbers.hpp"

namespace attest::oracle {

// The norms of one query row that its scores depend on.
struct QueryNorms {
  double sum_abs, max_abs;
};
struct Dot {
  double qk, abs_qk;    // sum q k, sum |q k|
  double k_sum, k_max;  // sum |k|, max |k|
  double off = 0;       // distance of q.k from `qk` where q and k are intervals; the other sums are then upper bounds
};

struct Score {
  double z;  // the reference: scale, softcap and bias applied
  double e;  // a computed score lies in z +- e (docs/bounds.md, section 1)
  // Some conforming computation meets an infinity on the way (section 5): `early` before the last softcap, which makes
  // a finite number of it, `late` after it.
  bool early_overflow, late_overflow;
  double raw, raw_error;  // q.k as it may be stored before it is scaled
  [[nodiscard]] bool overflow() const { return early_overflow || late_overflow; }
};

// Where section 1 has two bounds of e: the smaller one, or the one that grows with its arguments.
enum class ScoreBound : std::uint8_t { least, growing };
// The size of a bias, in nats, from which section 1 computes the rounding of its sum. The quick levels leave such
// errors alone.
inline constexpr double least_absorbing = 100;

// `bias` is 0 where there is none.
// A bias of -inf is for the caller, but for the order in which the softcap comes last and makes it -softcap.
Score score_of(const Numbers& n, const QueryNorms& query, const Dot& dot, double bias,
               ScoreBound bounded = ScoreBound::least);

}  // namespace attest::oracle
