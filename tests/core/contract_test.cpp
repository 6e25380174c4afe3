#include "core/contract.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"

namespace attest {
namespace {

Contract read(const char* text) { return contract_from_text(text, policy_from_text("f16")); }

TEST(Contract, AbsentKeysKeepTheirDefaults) {
  const Contract contract = read("{}");
  EXPECT_EQ(contract.arithmetic, Arithmetic{});
  EXPECT_EQ(contract.empty_row, EmptyRow::unspecified);
  EXPECT_FALSE(contract.batch_invariant);
  EXPECT_FALSE(contract.deterministic);
}

TEST(Contract, ReadsBackWhatItWrites) {
  const Contract contract = read(R"({"exp_ulp":2,"fold":["q","sqrt"],"exp2":false,"lse_merge":"chain","splits_max":4,
    "normalise":["before"],"sum_of":"rounded","kv_tile_min":64,"key_order":"descending","lazy":0,"tanh":"absolute",
    "empty_row":"zero","batch_invariant":"bitwise","deterministic":"threads","softcap_before_bias":false,
    "nan":"propagates","masked_unread":"beyond_length","flush_to_zero":true,"kappa":3,"policy":"f16"})");
  EXPECT_FALSE(contract.arithmetic.fold_k);
  EXPECT_EQ(contract.lazy_nats(), 0);
  EXPECT_EQ(contract.masked_unread, MaskedUnread::beyond_length);
  EXPECT_EQ(contract_from_text(json_text(to_json(contract)), contract.policy), contract);
}

// Said only where it is so: contracts of before it read and print as they did.
TEST(Contract, AnAddedMaskReadsItsKeys) {
  EXPECT_FALSE(to_json(read("{}")).contains("mask_added"));
  const Contract contract = read(R"({"mask_added":true})");
  EXPECT_TRUE(contract.mask_added);
  EXPECT_EQ(contract_from_json(nlohmann::json::parse(to_json(contract).dump()), contract.policy), contract);
  EXPECT_THROW(read(R"({"mask_added":true,"masked_unread":"beyond_length"})"), Error);
}

TEST(Contract, WordsThatRealKernelsNeed) {
  for (const char* word : {"score", "values", "mean_all"})
    EXPECT_EQ(json_text(to_json(read("{}"))).find(word), std::string::npos) << word;
  const Contract contract = read(R"({"fold":["score"],"order":"values","empty_row":"mean_all"})");
  EXPECT_TRUE(contract.arithmetic.fold_score && contract.arithmetic.folds_log2_e());
  EXPECT_FALSE(contract.arithmetic.fold_q || contract.arithmetic.fold_k || contract.arithmetic.fold_sqrt);
  EXPECT_FALSE(read(R"({"fold":"score","exp2":false})").arithmetic.folds_log2_e());
  EXPECT_TRUE(contract.arithmetic.order_by_values);
  EXPECT_EQ(contract.empty_row, EmptyRow::mean_all);
  EXPECT_EQ(contract_from_text(json_text(to_json(contract)), contract.policy), contract);
  EXPECT_THROW(read(R"({"order":"values","deterministic":"rerun"})"), Error);
  EXPECT_NO_THROW(read(R"({"order":"values","deterministic":"no"})"));
  EXPECT_THROW(read(R"({"empty_row":"mean_all","masked_unread":true})"), Error);
  EXPECT_THROW(read(R"({"order":"value"})"), Error);
}

TEST(Contract, ReadsTensorCoresInEverySpelling) {
  const auto mma = [](const char* policy, const char* text) {
    const Policy formats = policy_from_text(policy);
    const Contract contract =
        contract_from_json(contract_for_dtype(parse_json(text), formats[Stage::storage]), formats);
    EXPECT_EQ(contract_from_text(json_text(to_json(contract)), formats), contract) << text;
    return contract.arithmetic.mma;
  };
  const Mma ampere{.block = 8, .frac = 24, .out = MmaResult::f32}, tf32{.block = 4, .frac = 24, .out = MmaResult::f32};
  for (const char* text : {R"({"mma":"ampere"})", R"({"mma":{"block":8,"frac":24,"out":"f32"}})",
                           R"({"mma":{"frac":24,"block":8}})", R"({"mma":"8/24/f32"})",
                           R"({"mma":{"f16":"ampere","f32":"volta"}})", R"({"mma":"ada"})", R"({"mma":"turing"})"})
    EXPECT_EQ(mma("f16", text), ampere) << text;
  EXPECT_EQ(mma("f32,operand=tf32", R"({"mma":"ampere"})"), tf32);
  EXPECT_EQ(mma("bf16", R"({"mma":{"f16":"ampere"}})"), std::nullopt);
  EXPECT_EQ(mma("f16-acc16", R"({"mma":"8/24/f16"})"), (Mma{.block = 8, .frac = 24, .out = MmaResult::f16}));
  for (const std::string text : {"8/24/f32", "16/25/f32/only", "32/13/e8m13"})
    EXPECT_EQ(to_text(mma("f32", (R"({"mma":")" + text + "\"}").c_str()).value()), text);
  EXPECT_EQ(mma("f16", R"({"mma":"hopper-fp8"})"), (Mma{.block = 32, .frac = 13, .out = MmaResult::e8m13}));
  const Mma blocks_only{.block = 8, .frac = 25, .out = MmaResult::f32, .only = true};
  EXPECT_EQ(mma("f16", R"({"mma":"8/25/f32/only"})"), blocks_only);
  EXPECT_EQ(mma("f16", R"({"mma":{"block":8,"frac":25,"only":true}})"), blocks_only);
  EXPECT_FALSE(to_json(read("{}")).contains("mma"));
}

TEST(Contract, RefusesTensorCoresThatMakeNoSense) {
  const auto says = [](const char* policy, const char* text) -> std::string {
    try {
      contract_from_text(text, policy_from_text(policy));
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      return error.what();
    }
  };
  EXPECT_EQ(says("f16", R"({"mma":{"block":8,"frac":0}})"), "contract: mma.frac must be an integer in 1..35");
  EXPECT_EQ(says("f16", R"({"mma":{"block":0,"frac":24}})"), "contract: mma.block must be an integer in 1..1024");
  EXPECT_EQ(says("f16", R"({"mma":{"block":4,"frac":24,"out":"f64"}})"),
            "contract: mma.out must be one of f32, e8m13, f16");
  EXPECT_EQ(says("f16", R"({"mma":"volta","kappa":3})"),
            "contract: mma says how accumulators round, and kappa 3 says it again: leave one out");
  EXPECT_EQ(says("f16", R"({"mma":"8/24/f16"})"),
            "contract: mma.out f16 does not hold what qk keeps, which is f32: the policy must say qk=f16");
  EXPECT_EQ(says("f16", R"({"mma":"4/1/f32"})"),
            "contract: mma.frac 1 lets a block err by all of its result: it must be at least 2");
  for (const char* text : {R"({"mma":"pascal"})", R"({"mma":8})", R"({"mma":{"block":8}})", R"({"mma":{"frac":24}})",
                           R"({"mma":{"block":8,"frac":24,"k":1}})", R"({"mma":"8/24"})", R"({"mma":"8/x/f32"})",
                           R"({"mma":{"block":8,"frac":24,"only":1}})"})
    EXPECT_NE(says("f16", text).find("contract: mma"), std::string::npos) << text;
  EXPECT_NE(says("f16", R"({"mma":"pascal"})").find("volta, turing, ampere"), std::string::npos);
}

TEST(Contract, RefusesWhatItDoesNotKnow) {
  for (const char* text : {R"({"exp_upl":1})", R"({"exp_ulp":"one"})", R"({"exp_ulp":0})", R"({"fold":"v"})",
                           R"({"fold":[]})", R"({"empty_row":"zeros"})", R"({"kv_tile_min":0})",
                           R"({"kv_tile_min":1.5})", R"({"masked_unread":"maybe"})", R"({"exp2":1})", R"([1])"})
    EXPECT_THROW(read(text), Error) << text;
}

// An error of so many ulps of a coarse format may be the whole of a result.
TEST(Contract, RefusesNumbersThatLeaveNothingOfAResult) {
  const auto says = [](const char* policy, const char* text) -> std::string {
    try {
      contract_from_text(text, policy_from_text(policy));
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      return error.what();
    }
  };
  EXPECT_EQ(
      says("f16-softmax16", R"({"exp_ulp":1024})"),
      "contract: exp_ulp 1024 lets an exp err by all of its result where softmax is f16: it must be less than 1024");
  EXPECT_EQ(says("f16-softmax16", R"({"exp_ulp":1023.5})"), "");
  EXPECT_EQ(says("f16", R"({"exp_ulp":1048576})"), "");
  EXPECT_EQ(says("f16-softmax16", R"({"exp_ulp":2000,"exp_rel":0.5})"), "");
  EXPECT_NE(says("bf16-all", R"({"exp_ulp":128})").find("less than 128"), std::string::npos);
  EXPECT_EQ(says("bf16-all", R"({"exp_ulp":127,"div_ulp":127})"), "");
  EXPECT_EQ(says("f16", R"({"div_ulp":4096})"), "");  // half a unit of f16, in those of f32
  EXPECT_NE(says("f16-acc16", R"({"div_ulp":1024})").find("where pv is f16"), std::string::npos);
  EXPECT_NE(says("f32,softmax=bf16", R"({"div_ulp":128})").find("where softmax is bf16"), std::string::npos);
}

TEST(Contract, ALaggingMaximumIsNotForNarrowSoftmax) {
  EXPECT_GT(contract_for(policy_from_text("f16")).lazy_nats(), 5.5);
  EXPECT_EQ(contract_for(policy_from_text("f16-softmax16")).lazy_nats(), 0);
  EXPECT_EQ(contract_for(policy_from_text("f16-acc16")).lazy_nats(), 0);
}

}  // namespace
}  // namespace attest
