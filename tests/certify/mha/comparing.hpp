#pragma once
// The certificate of attention blocks and their oracle share docs/mha.md and no code: over random problems and
// contracts, ball arithmetic gives the interval that float64 gives for every way that a contract permits, and the same
// verdict on values on its edges and off them.
//
// The oracle adds terms for its own rounding, the certificate makes none: its interval lies between those of the
// certificate with these terms left out and counted several times, and on a value between the two the oracle may accept
// what the certificate proves wrong. Such values are counted.
//
// ATTEST_CERTIFY_PROBLEMS (600) and ATTEST_CERTIFY_SEED (1) choose the problems.
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "certify/mha/certificate.hpp"
#include "certify/rounding.hpp"
#include "oracle/mha/mha.hpp"
#include "oracle/outcome.hpp"
#include "tests/oracle/mha_draw.hpp"

namespace attest::certifying {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double many = 5;  // times that the oracle's own errors are counted

struct Totals {
  std::int64_t problems = 0, elements = 0, undetermined = 0, points = 0, values = 0, inside = 0, outside = 0,
               permitted = 0;
  std::int64_t edge = 0;   // the oracle's own error decides: it accepts what the certificate proves wrong
  std::int64_t apart = 0;  // ends of a stage that the oracle's own error rounds elsewhere
};
using Complaints = std::vector<std::string>;
// Changes the oracle's enclosure before it is compared, so that a wrong one is seen to be refuted.
using Plant = std::function<void(oracle::Enclosure&, Format)>;

struct Pair {
  const oracle::Enclosure& oracle;
  const certify::Enclosure &proof, &wide;
  Format stage, tensor;
  bool flush;
  std::string where;
  double least = 0;  // error of doubles among subnormal numbers at the oracle's ends
};

// The intervals of both, and their verdicts on values at the ends, beside them and far off.
void compare(const Pair& pair, std::uint64_t key, Totals& totals, Complaints& complaints);

struct Asked {
  testing::NamedBlockContract named;
  mha::Problem problem;
};
// A problem and a contract at random.
Asked asked(std::uint64_t key);

}  // namespace attest::certifying
