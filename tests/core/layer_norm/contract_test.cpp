// The contract of layer_norm: every number there and back, what is refused and how, and what `depth` means.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "core/layer_norm/contract.hpp"

namespace attest::layer_norm {
namespace {

Contract read(const std::string& text, const std::string& policy = "f32") {
  return contract_from_json(parse_json(text), policy_from_text(policy));
}

std::string refusal(const std::string& text, const std::string& policy = "f32") {
  try {
    read(text, policy);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return "";
}

TEST(LayerNormContract, EveryNumberThereAndBack) {
  const char* const declarations[] = {
      "{}",
      R"({"variance":"two_pass_corrected","depth":40})",
      R"({"variance":"welford","merge":"delta","merge_depth":5,"depth":{"lanes":32}})",
      R"({"variance":"welford","merge":"weighted","merge_depth":1})",
      R"({"variance":"shifted","clamp":true,"depth":{"lanes":8,"block":4}})",
      R"({"variance":"one_pass","depth":{"pairwise":16},"rsqrt_ulp":4})",
      R"({"rsqrt_rel":6.1e-5,"form":"folded","kappa":3})",
      R"({"form":"scale_bias","norm_rounded":true,"flush_to_zero":true})",
      R"({"form":"weighted_scale","flush_to_zero":"inputs","sum_of":"unrounded"})",
      R"({"gamma_offset":1,"epsilon":"inside","nan":"propagates","batch_invariant":"bitwise","deterministic":"threads"})",
  };
  for (const char* text : declarations) {
    const Contract contract = read(text, "f16,affine=f16");
    const auto written = to_json(contract);
    EXPECT_EQ(
        contract_from_json(parse_json(json_text(written)), policy_from_text(written["policy"].get<std::string>())),
        contract)
        << text;
  }
  EXPECT_EQ(read(declarations[3]).arithmetic.merge, Merge::weighted);
  EXPECT_EQ(read(declarations[7]).arithmetic.flush_to_zero, FlushToZero::results);
  EXPECT_EQ(read(declarations[9]).gamma_offset, 1);
}

TEST(LayerNormContract, RefusalsNameTheThing) {
  EXPECT_EQ(refusal(R"({"exp_ulp":1})"), "contract: layer_norm has no key 'exp_ulp': docs/layer-norm.md lists them");
  EXPECT_EQ(refusal(R"({"variance":"three_pass"})"),
            "contract: variance must be one of two_pass, two_pass_corrected, welford, shifted, one_pass");
  EXPECT_EQ(
      refusal(R"({"epsilon":"outside"})"),
      "contract: epsilon must be \"inside\": a kernel that adds epsilon outside the root computes another function");
  EXPECT_EQ(refusal(R"({"depth":{"block":4}})"),
            R"(contract: depth must be a number, {"lanes": L}, {"lanes": L, "block": b} or {"pairwise": b})");
  EXPECT_EQ(refusal(R"({"depth":0})"), "contract: depth must be an integer in 1..1048576");
  EXPECT_EQ(refusal(R"({"merge":"delta","merge_depth":2})"),
            "contract: merge and merge_depth are of welford, and variance is two_pass: leave them out");
  EXPECT_EQ(refusal(R"({"variance":"welford","merge":"delta"})"),
            "contract: merge says how parts of a row are joined and merge_depth how often: give both or neither");
  EXPECT_EQ(refusal(R"({"clamp":true})"),
            "contract: clamp is of one_pass and shifted, and variance is two_pass, which never is negative");
  EXPECT_NE(refusal(R"({"form":"folded","norm_rounded":true})"), "");
  EXPECT_NE(refusal(R"({"rsqrt_ulp":200})", "bf16-all"), "");
  EXPECT_EQ(refusal(R"({"rsqrt_ulp":200})", "bf16"), "");
  EXPECT_NE(refusal(R"({"kappa":0.5})"), "");
  EXPECT_NE(refusal(R"({"gamma_offset":2})"), "");
  EXPECT_NE(refusal("[]"), "");
}

TEST(LayerNormContract, DepthIsARule) {
  const auto depth = [](const char* text, Index n) { return read(text).arithmetic.additions(n); };
  EXPECT_EQ(depth("{}", 1024), 1023);
  EXPECT_EQ(depth("{}", 1), 1);
  EXPECT_EQ(depth(R"({"depth":40})", 1024), 40);
  EXPECT_EQ(depth(R"({"depth":40})", 8), 7);
  EXPECT_EQ(depth(R"({"depth":{"lanes":32}})", 1024), 32 + 5);
  EXPECT_EQ(depth(R"({"depth":{"lanes":32}})", 1000), 32 + 5);
  EXPECT_EQ(depth(R"({"depth":{"lanes":32,"block":4}})", 1024), 8 + 5 + 2);
  EXPECT_EQ(depth(R"({"depth":{"pairwise":8}})", 1000), 10 + 8);
}

TEST(LayerNormPolicy, TextThereAndBack) {
  for (const char* text : {"f32", "f64", "f16", "bf16", "f16-all", "bf16-all", "f32,statistics=bf16", "f16,affine=f16",
                           "bf16,normalise=f16", "f32,sum=f64,statistics=f64"})
    EXPECT_EQ(to_text(policy_from_text(text)), text);
  EXPECT_EQ(policy_from_text("storage=f16"), policy_from_text("f16"));
  EXPECT_EQ(policy_from_text("f32,*=bf16"), policy_from_text("bf16-all"));
  EXPECT_EQ(policy_from_text("f16,a*=f16")[Stage::affine], Format::f16);
  for (const char* text : {"", "f12", "qk=f16", "statistics=tf32", "statistics=f12", "f32,f16"})
    EXPECT_THROW(policy_from_text(text), Error) << text;
}

}  // namespace
}  // namespace attest::layer_norm
