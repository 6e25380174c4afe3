#include "tests/oracle/same_verdict.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace attest::testing {

void expect_same_verdict(const Verdict& a, const Verdict& b) {
  EXPECT_EQ(name(a.kind), name(b.kind));
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.counts.judged, b.counts.judged);
  EXPECT_EQ(a.counts.undetermined, b.counts.undetermined);
  EXPECT_EQ(a.counts.wide, b.counts.wide);
  ASSERT_EQ(a.evidence.has_value(), b.evidence.has_value());
  if (!a.evidence) return;
  EXPECT_EQ(a.evidence->tensor, b.evidence->tensor);
  EXPECT_EQ(a.evidence->index, b.evidence->index);
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };  // where NaN must be
  EXPECT_TRUE(same(a.evidence->lo, b.evidence->lo)) << a.evidence->lo << ' ' << b.evidence->lo;
  EXPECT_TRUE(same(a.evidence->hi, b.evidence->hi)) << a.evidence->hi << ' ' << b.evidence->hi;
}

double neighbour(Format format, double x, bool up) {
  if (!std::isfinite(x)) return x;
  const double target = up ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  if (format == Format::f64) return std::nextafter(x, target);
  double step = std::max(std::fabs(x) * unit_roundoff(format), 2 * half_smallest_subnormal(format));
  for (double y = x;; step *= 1.5) {
    y = round_to(format, up ? x + step : x - step);
    if (y != x) return y;
  }
}

}  // namespace attest::testing
