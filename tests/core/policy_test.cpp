#include "core/policy.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/glob.hpp"
#include "core/layer_norm/policy.hpp"
#include "core/mha/contract.hpp"
#include "core/policy_stages.hpp"

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

// Other operations are named, so that whoever meant one of theirs sees how it is said.
TEST(Policy, AnErrorListsTheStagesOfAllOperations) {
  const std::string message = message_of("f16,layernorm*=f32");
  for (const char* stage : {"softmax", "layer_norm.storage", "statistics", "mha.storage", "gemm"})
    EXPECT_NE(message.find(stage), std::string::npos) << stage << " in " << message;
}

TEST(Policy, StagesMayBeSaidFromOutside) {
  EXPECT_EQ(policy_from_text("f16,attention.softmax=f16"), policy_from_text("f16-softmax16,softcap=f32"));
  EXPECT_EQ(policy_from_text("f16,attention*=f32"), policy_from_text("f32"));
  EXPECT_EQ(policy_from_text("f16,attention.s*=bf16,attention.storage=f16"),
            policy_from_text("f16,s*=bf16,storage=f16"));
  EXPECT_EQ(layer_norm::policy_from_text("f16-all,layer_norm.statistics=f32"),
            layer_norm::policy_from_text("f16-all,statistics=f32"));
  EXPECT_EQ(layer_norm::policy_from_text("f16,*.n*=bf16"), layer_norm::policy_from_text("f16,normalise=bf16"));
}

// The name of an operation plays no part in patterns that do not name one: these matched before there was a second.
TEST(Policy, APatternWithoutAnOperationIsOfStagesAlone) {
  EXPECT_EQ(policy_from_text("f32,*o*=f16"), policy_from_text("f32,storage=f16,operand=f16,score=f16,softcap=f16,"
                                                              "softmax=f16,output=f16"));
  EXPECT_EQ(policy_from_text("f32,*n*=f16"), policy_from_text("f32,operand=f16"));
  EXPECT_NE(message_of("f32,att*=f16").find("matches no stage"), std::string::npos);
  EXPECT_THROW(layer_norm::policy_from_text("f32,l*=f16"), Error);
}

TEST(PolicyShare, EachOperationTakesItsOwn) {
  const char* text = "f16,softmax=f16,layer_norm*=f32,gemm=f16";
  const PolicyShare attention = policy_share("attention", text), norm = policy_share("layer_norm", text),
                    block = policy_share("mha", text);
  EXPECT_EQ(attention.text, "f16,softmax=f16");
  EXPECT_EQ(norm.text, "f16,layer_norm*=f32");
  EXPECT_EQ(block.text, "f16,softmax=f16,gemm=f16");
  ASSERT_EQ(attention.elsewhere.size(), 2u);
  EXPECT_EQ(attention.elsewhere[0],
            "policy pattern 'layer_norm*' matches stages of layer_norm alone, and says nothing of attention");
  EXPECT_EQ(norm.elsewhere.size(), 2u);
  EXPECT_EQ(norm.elsewhere[0],
            "policy pattern 'softmax' matches stages of attention and mha alone, and says nothing of layer_norm");
  EXPECT_EQ(block.elsewhere.size(), 1u);
  EXPECT_EQ(layer_norm::policy_from_text(norm.text), layer_norm::policy_from_text("f32"));
}

// The block is made of attention, whose stages it says by that name too.
TEST(PolicyShare, ABlockHasTheStagesOfAttention) {
  EXPECT_TRUE(policy_share("mha", "f16,attention.softmax=f16").elsewhere.empty());
  EXPECT_EQ(mha::policy_from_text("f16,attention.softmax=f16"), mha::policy_from_text("f16,softmax=f16"));
  EXPECT_EQ(mha::policy_from_text("f16,mha.softmax=f16,mha.gemm=f16"),
            mha::policy_from_text("f16,softmax=f16,gemm=f16"));
  EXPECT_EQ(mha::policy_from_text("f16,mha*=f32"), mha::policy_from_text("f16,*=f32"));
  EXPECT_EQ(policy_share("attention", "f16,mha.softmax=f16").elsewhere.size(), 1u);
}

TEST(PolicyShare, LeavesWhatMatchesNothingToBeRefused) {
  const PolicyShare share = policy_share("layer_norm", "f16,layernorm*=f32");
  EXPECT_TRUE(share.elsewhere.empty());
  EXPECT_THROW(layer_norm::policy_from_text(share.text), Error);
  // Nothing names a stage of the operation: every stage follows f32.
  EXPECT_EQ(policy_share("attention", "layer_norm*=f16").text, "f32");
  EXPECT_EQ(policy_share("attention", "").text, "");
  EXPECT_EQ(policy_share("attention", "f16,").text, "f16,");
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
  EXPECT_TRUE(any_glob_matches("softmax,s*", "storage"));
  EXPECT_FALSE(any_glob_matches("softmax,,x*", "storage"));
  EXPECT_TRUE(glob_matches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(glob_matches("?k", "k"));
  EXPECT_FALSE(glob_matches("s*x", "softmaxy"));
  EXPECT_FALSE(glob_matches("", "a"));
}

}  // namespace
}  // namespace attest
