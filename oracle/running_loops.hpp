#pragma once
// Bodies of Loops, for the files that make it.
#include "oracle/half_gap.hpp"
#include "oracle/loops.hpp"

namespace attest::oracle::products {

template <class L>
void Loops<L>::running_sums(const double* p, double scale, const double* v, Index keys, Index columns,
                            const RunningSums& to, bool add) {
  for (Index c = 0; c < columns; c += lane_count) {
    const auto from = [&](const double* at, double first) __attribute__((always_inline)) {
      return add ? load<L>(at + c) : fill<L>(first);
    };
    L total = from(to.total, 0), sums = from(to.sums, 0), squares = from(to.squares, 0), terms = from(to.terms, 0),
      least = from(to.least, lane_infinity), most = from(to.most, -lane_infinity), count = from(to.count, 0);
    const double* at = v + c;
    for (Index j = 0; j < keys; ++j, at += columns) {
      const double weight = p[j] * scale;
      if (weight == 0) continue;
      const L term = weight * load<L>(at);
      total += term;
      sums += total;
      squares += total * total;
      terms += term * term;
      least = min(least, term);
      most = max(most, term);
      count += zero_unless(abs(term) > RunningSums::least_term, fill<L>(1));
    }
    store(to.total + c, total);
    store(to.sums + c, sums);
    store(to.squares + c, squares);
    store(to.terms + c, terms);
    store(to.least + c, least);
    store(to.most + c, most);
    store(to.count + c, count);
  }
}

}  // namespace attest::oracle::products
