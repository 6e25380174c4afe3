// attest/test.hpp in the body of a test: what holds, a planted fault, and a program that is not there.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <attest/test.hpp>
#include <cstdlib>

namespace {

struct Program : testing::Test {
  void SetUp() override { ::setenv("ATTEST_PROGRAM", ATTEST_PROGRAM, 1); }
};

TEST_F(Program, HoldsForAKernelThatIsRight) {
  EXPECT_ATTEST("builtin:fused", "f32", {"--cases", "30"});
  EXPECT_TRUE(attest::check("builtin:fused", "", {"--cases", "30"}));
}

TEST_F(Program, FailsForAPlantedFaultAndTellsIt) {
  EXPECT_NONFATAL_FAILURE(EXPECT_ATTEST("fault:scale-twice", "", {"--cases", "100"}), "fault:scale-twice");
  const attest::Checked checked = attest::check("fault:scale-twice", "", {"--cases", "100"});
  EXPECT_EQ(checked.status, 1);
  EXPECT_NE(checked.text.find(", expected "), std::string::npos) << checked.text;
}

TEST_F(Program, FailsWhereNothingIsJudged) {
  const attest::Checked checked = attest::check(
      "builtin:fused", "",
      {"--cases", "20", "--property", "window-mask", "--assume", "causal==0 && window_left<0 && window_right<0"});
  EXPECT_EQ(checked.status, 5) << checked.text;
  EXPECT_FALSE(checked);
}

TEST_F(Program, SaysWhatDoesNotStart) {
  ::setenv("ATTEST_PROGRAM", "/no/such/attest", 1);
  const attest::Checked checked = attest::check("builtin:fused");
  EXPECT_EQ(checked.status, -1);
  EXPECT_NE(checked.text.find("/no/such/attest does not start"), std::string::npos) << checked.text;
}

}  // namespace
