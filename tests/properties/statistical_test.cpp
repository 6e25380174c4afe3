// What the statistical laws make of what an oracle says of a result.
#include <gtest/gtest.h>

#include "properties/statistical.hpp"

namespace attest {
namespace {

// Of a result of so many elements, one of which needs `lambda`.
VerdictKind told(double lambda, std::int64_t elements) {
  oracle::Statistics statistics;
  statistics.largest_lambda = lambda;
  return properties::statistical_bound_verdict(Verdict::pass({elements, 0, 0}), statistics, {},
                                               [](double) {
                                                 return properties::NearElement{1, 0, -0.5, 0.5};
                                               })
      .kind;
}

TEST(StatisticalBound, WarnsOfWhatIsRareAmongSoManyElements) {
  EXPECT_EQ(told(3.9, 1), VerdictKind::pass);
  EXPECT_EQ(told(4.1, 16), VerdictKind::warn);
  EXPECT_EQ(told(4.1, 8192), VerdictKind::pass);
  EXPECT_EQ(told(4.6, 64), VerdictKind::warn);
  EXPECT_EQ(told(4.9, 1000), VerdictKind::warn);
  EXPECT_EQ(told(4.9, 1'000'000), VerdictKind::pass);
  for (const std::int64_t elements : {1, 16, 8192, 1'000'000}) EXPECT_EQ(told(5.1, elements), VerdictKind::warn);
}

}  // namespace
}  // namespace attest
