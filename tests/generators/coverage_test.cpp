// Every pair of regions that should meet does, and a generator that lost one would be told.
#include "generators/coverage.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace attest {
namespace {

const std::vector<Format> formats{Format::f16, Format::bf16, Format::f32, Format::f64};

TEST(Coverage, NothingIsEmptyWhereNothingIsRestricted) {
  const Coverage coverage = cover(Domain(Supports::everything(), formats), 1, 300'000);
  for (const std::string& region : coverage.empty()) ADD_FAILURE() << "never drawn: " << region;
}

std::vector<std::string> empty_without(std::string_view field, Index lo, Index hi) {
  Domain domain(Supports::everything(), formats);
  domain.narrow(field, lo, hi);
  return cover(domain, 1, 30'000).empty();
}
bool holds(const std::vector<std::string>& regions, std::string_view region) {
  return std::ranges::find(regions, region) != regions.end();
}

TEST(Coverage, TellsALabelThatIsNoLongerDrawn) {
  const Index most = static_cast<Index>(Values::large_integers);
  const auto empty = empty_without("values", 0, most - 1);
  EXPECT_TRUE(holds(empty, "values x dtype: large_integers"));
  EXPECT_FALSE(holds(empty, "values x dtype: integers"));
}

TEST(Coverage, TellsRegionsThatNoLongerMeet) {
  Domain domain(Supports::everything(), formats);
  domain.assume([](const Problem& p) { return !(p.causal && p.lq > p.lk); });
  const auto empty = cover(domain, 1, 30'000).empty();
  EXPECT_TRUE(holds(empty, "diagonal x lengths of q and k: causal x lq>lk"));
  EXPECT_TRUE(holds(empty, "diagonal x lengths of q and k: causal-br x lq>lk"));
  EXPECT_FALSE(holds(empty, "diagonal x lengths of q and k: causal x lq<lk"));
}

TEST(Coverage, TellsALengthThatIsNoLongerDrawn) {
  const auto empty = empty_without("lk", 1, 4095);
  EXPECT_TRUE(holds(empty, "values x keys: >=4096"));
  EXPECT_TRUE(holds(empty, "empty dimension x mask: lk=0"));
}

TEST(Coverage, CountsEveryProblemOnceInEveryField) {
  const Coverage coverage = cover(Domain(Supports{}, formats), 3, 2000);
  EXPECT_GE(coverage.fields.size(), 30u);
  for (const FieldCount& field : coverage.fields) {
    std::uint64_t sum = 0;
    for (const auto& [name, count] : field.values) sum += count;
    EXPECT_EQ(sum, 2000u) << field.name;
  }
}

TEST(Coverage, IntegersFallIntoTheirOctaves) {
  Domain domain(Supports{}, formats);
  domain.narrow("lk", 5, 8);
  domain.narrow("b", 2, 2);
  for (const FieldCount& field : cover(domain, 3, 500).fields)
    for (const auto& [name, count] : field.values) {
      if (field.name == "lk") {
        EXPECT_EQ(count, name == "5..8" ? 500u : 0u) << name;
      } else if (field.name == "b") {
        EXPECT_EQ(count, name == "2" ? 500u : 0u) << name;
      }
    }
}

}  // namespace
}  // namespace attest
