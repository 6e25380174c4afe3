// R by hand, and what steps make of them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ensemble/steps.hpp"

namespace attest::ensemble {
namespace {

constexpr double ulp = 0x1p-23;  // the unit in the last place of f32, in [1, 2)

// n elements of exact value 1.5 that were returned `off` ulps away, beside members that are `member(k)` ulps away.
Sample sample(std::size_t n, double off, const std::function<double(int k)>& member) {
  Sample s;
  s.exact.assign(n, 1.5L);
  s.got.assign(n, 1.5 + off * ulp);
  for (std::size_t i = 0; i < n; ++i) s.places.push_back({0, 0, 0, static_cast<std::int64_t>(i)});
  s.format = Format::f32;
  s.member = [n, member](int k) { return std::vector<double>(n, 1.5 + member(k) * ulp); };
  s.scheme = [](int k) { return "member " + std::to_string(k); };
  return s;
}
const auto two = [](int) { return 2.0; };

TEST(Standing, RIsOfTheLargestMember) {
  Standing standing(sample(100, 6, [](int k) { return k < 3 ? 1.0 : 2.0; }));
  EXPECT_TRUE(standing.among(16));
  EXPECT_EQ(standing.members(), 16);
  EXPECT_DOUBLE_EQ(standing.r(), 3);
}

TEST(Standing, AsksNoMoreThanItNeeds) {
  Standing standing(sample(100, 6, [](int k) { return k == 4 ? 5.0 : 2.0; }));
  EXPECT_FALSE(standing.among(16));
  EXPECT_EQ(standing.members(), 5);
  EXPECT_EQ(standing.nearest(), "member 4");
}

TEST(Standing, AResultOfRoundingsAloneNeedsNoMember) {
  Standing standing(sample(100, 0.4, two));
  EXPECT_FALSE(standing.among(16));
  EXPECT_EQ(standing.members(), 0);
}

// One element may fall elsewhere than in all members, by another way to round: that alone says nothing.
TEST(Standing, OneElementThatIsFarOffIsNamedAndNotBlamed) {
  Sample s = sample(1000, 1, two);
  s.got[7] = 1.5 + 10 * ulp;
  Standing standing(s);
  EXPECT_FALSE(standing.among(16));
  EXPECT_EQ(standing.worst().place[3], 7);
}

TEST(Standing, ElementsCountThatAreFiniteEverywhere) {
  Sample s = sample(10, 0.5, two);
  s.exact[0] = std::numeric_limits<long double>::infinity();
  s.got[1] = std::nan("");
  s.got[2] = 1.5 + 1e6 * ulp;
  s.member = [](int k) {
    std::vector<double> results(10, 1.5 + 2 * ulp);
    if (k == 3) results[2] = std::numeric_limits<double>::infinity();
    return results;
  };
  Standing standing(s);
  EXPECT_FALSE(standing.among(16));
  EXPECT_EQ(standing.members(), 4);
  EXPECT_EQ(standing.elements(), 7U);
}

TEST(Standing, HugeAndTinyErrorsHaveSquares) {
  for (const double size : {1e300, 1e-300}) {
    Sample s = sample(4, 0, two);
    s.format = Format::f64;
    s.exact.assign(4, static_cast<long double>(size));
    s.got.assign(4, size * 1.5);
    s.member = [size](int) { return std::vector<double>(4, size * 1.25); };
    Standing standing(s);
    EXPECT_TRUE(standing.among(16));
    EXPECT_DOUBLE_EQ(standing.r(), 2);
  }
}

TEST(Steps, AFindingNeedsAllThreeDraws) {
  const auto off = [](std::vector<double> ulps) {
    return [ulps](int n) { return sample(100, ulps[static_cast<std::size_t>(n)], two); };
  };
  EXPECT_TRUE(ask(off({6, 6, 6})).found);
  EXPECT_FALSE(ask(off({6, 6, 1})).found);
  EXPECT_FALSE(ask(off({6, 1, 6})).found);
  EXPECT_FALSE(ask(off({1, 6, 6})).found);
  EXPECT_EQ(ask(off({6, 6, 6})).members, many_members);
}

TEST(Steps, LaterMembersMayAcquit) {
  const auto draw = [](int) { return sample(100, 6, [](int k) { return k == 200 ? 6.0 : 2.0; }); };
  const Outcome outcome = ask(draw);
  EXPECT_FALSE(outcome.found);
  EXPECT_EQ(outcome.members, 201);
}

}  // namespace
}  // namespace attest::ensemble
