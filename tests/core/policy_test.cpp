#include "core/policy.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/glob.hpp"

namespace attest {
namespace {

std::string message_of(std::string_view text) {
  try {
    (void)policy_from_text(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  ADD_FAILURE() << text << " was accepted";
  return {};
}

TEST(Policy, NamedPoliciesReadBack) {
  for (const auto& row : named_policies()) {
    EXPECT_EQ(policy_from_text(row.name), row.policy);
    EXPECT_EQ(to_text(row.policy), row.name);
  }
}

TEST(Policy, AllNarrowMeansEveryStage) {
  const Policy all = policy_from_text("bf16-all");
  for (std::size_t i = 0; i < stage_count; ++i) EXPECT_EQ(all[static_cast<Stage>(i)], Format::bf16);
}

TEST(Policy, LaterPatternsWin) {
  const Policy policy = policy_from_text("f16,*=f32,s*=f16,softmax=bf16");
  EXPECT_EQ(policy[Stage::qk], Format::f32);
  EXPECT_EQ(policy[Stage::score], Format::f16);
  EXPECT_EQ(policy[Stage::softmax], Format::bf16);
}

TEST(Policy, UnnamedStagesFollowTheStorageFormat) {
  EXPECT_EQ(policy_from_text("storage=f16")[Stage::weights], Format::f16);
  EXPECT_EQ(policy_from_text("softmax=f16")[Stage::weights], Format::f32);
  EXPECT_EQ(policy_from_text("storage=f64,softmax=f32")[Stage::qk], Format::f64);
}

TEST(Policy, TextReadsBack) {
  for (const char* text : {"f16,softmax=bf16", "operand=tf32", "f64,score=f32", "bf16,pv=bf16,partial=f16"})
    EXPECT_EQ(policy_from_text(to_text(policy_from_text(text))), policy_from_text(text)) << text;
}

// The founding case S2: a wildcard that silently matched nothing.
TEST(Policy, APatternThatMatchesNoStageIsAnErrorThatListsThem) {
  const std::string message = message_of("f16,layernorm*=f32");
  EXPECT_NE(message.find("'layernorm*' matches no stage"), std::string::npos) << message;
  EXPECT_NE(message.find("softmax"), std::string::npos);
}

TEST(Policy, RefusesNonsense) {
  EXPECT_NE(message_of("f17").find("'f17'"), std::string::npos);
  EXPECT_NE(message_of("softmax=f8").find("no format"), std::string::npos);
  EXPECT_NE(message_of("").find("empty"), std::string::npos);
  EXPECT_NE(message_of("f16,").find("''"), std::string::npos);
  EXPECT_NE(message_of("f16,f32").find("'f32'"), std::string::npos);
  EXPECT_NE(message_of("storage=tf32").find("tf32 in memory"), std::string::npos);
}

TEST(Glob, MatchesRunsAndSingleCharacters) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("s*x", "softmax"));
  EXPECT_TRUE(glob_matches("?k", "qk"));
  EXPECT_TRUE(glob_matches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(glob_matches("?k", "k"));
  EXPECT_FALSE(glob_matches("s*x", "softmaxy"));
  EXPECT_FALSE(glob_matches("", "a"));
}

}  // namespace
}  // namespace attest
