#include "subjects/describe.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "core/error.hpp"

namespace attest {
namespace {

SubjectInfo read(const std::string& describe) { return subject_info({"k", "1", describe, ""}, "./p.so:k"); }

SubjectInfo read_more(const std::string& rest, const std::string& dtypes = R"(["f32"])") {
  return read(R"({"ops":["attention"],"dtypes":)" + dtypes + (rest.empty() ? "" : "," + rest) + "}");
}

TEST(Describe, DefaultsAreThoseOfTheInterface) {
  const SubjectInfo info = read_more("");
  EXPECT_EQ(info.name, "./p.so:k");
  EXPECT_EQ(info.version, "1");
  EXPECT_FALSE(info.concurrent);
  EXPECT_FALSE(info.policy_declared);
  const Supports& s = info.supports;
  EXPECT_TRUE(s.causal && s.top_left && s.bottom_right && s.gqa && s.bias && s.keep && s.kv_lengths && s.window &&
              s.softcap && s.lse);
  EXPECT_TRUE(s.stages.empty());
  EXPECT_EQ(s.alignment, 1);
  EXPECT_EQ(s.lk.min, 1);
  EXPECT_EQ(s.lk.max, std::numeric_limits<Index>::max());
  EXPECT_EQ(s.strides, Supports::Strides::any);
  EXPECT_FALSE(info.semantics.batch_invariant || info.semantics.deterministic);
  EXPECT_EQ(info.semantics.empty_row, EmptyRow::unspecified);
}

TEST(Describe, FormsAndWhatTheyPromise) {
  const SubjectInfo info = read_more(
      R"("supports":{"forms":{"mask":["full","1d"],"build":["dynamic",{"value":"static","contract":{"exp_ulp":3}}],
         "hint":["none",{"value":"f16","contract":{"policy":{"f32":"f32,*=f16,storage=f32","f64":"f64"},"exp_ulp":5}}]}},
         "contract":{"exp_ulp":{"f32":2},"div_ulp":1,"empty_row":"zero"})",
      R"(["f32","f64"])");
  EXPECT_EQ(
      info.supports.forms,
      (std::vector<FormOffer>{{"build", {"dynamic", "static"}}, {"hint", {"none", "f16"}}, {"mask", {"full", "1d"}}}));
  const auto contract = [&](const char* forms, Format dtype = Format::f32) {
    return info.contract(dtype, problem_from_text(std::string("lk=1 ") + forms).forms);
  };
  EXPECT_EQ(contract("").arithmetic.exp_ulp, 2);
  EXPECT_EQ(contract("form.mask=1d"), contract(""));
  EXPECT_EQ(contract("form.build=static").arithmetic.exp_ulp, 3);
  EXPECT_EQ(contract("form.build=static").arithmetic.div_ulp, 1);
  EXPECT_EQ(contract("form.hint=f16").policy[Stage::softmax], Format::f16);
  EXPECT_EQ(contract("form.hint=f16").policy[Stage::storage], Format::f32);
  EXPECT_EQ(contract("form.hint=f16", Format::f64).policy[Stage::softmax], Format::f64);
  EXPECT_EQ(contract("form.build=static form.hint=f16").arithmetic.exp_ulp, 5);
  EXPECT_EQ(contract("form.build=static form.hint=f16").empty_row, EmptyRow::zero);
}

TEST(Describe, WhichProblemsAreDrawnInWhichForms) {
  const Supports s =
      read_more(
          R"("supports":{"drawn":"lk>=lq","shapes_share_plans":true,"null_key":true,"forms":{"past":["none","shared"],
         "beam":["none",{"value":"one","contract":{}},{"value":"two","needs":{"past":"shared"},"where":"b>1"}]}})")
          .supports;
  EXPECT_EQ(s.drawn, "lk>=lq");
  EXPECT_TRUE(s.shapes_share_plans && s.null_key);
  EXPECT_EQ(s.forms, (std::vector<FormOffer>{{"beam", {"none", "one", "two"}, {{"two", {{"past", "shared"}}, "b>1"}}},
                                             {"past", {"none", "shared"}}}));
}

TEST(Describe, ADtypeWithoutAPolicyTakesNoneFromTheOthers) {
  const SubjectInfo info =
      read_more(R"("contract":{"policy":{"f16":"f16,softmax=f32","f64":"f64,softmax=f32"}})", R"(["f16","f32","f64"])");
  EXPECT_FALSE(info.policy_declared);
  EXPECT_EQ(info.contract(Format::f16).policy[Stage::softmax], Format::f32);
  EXPECT_EQ(info.contract(Format::f32).policy, Policy(Format::f32));
  EXPECT_EQ(info.contract(Format::f64).policy[Stage::softmax], Format::f32);
}

TEST(Describe, WhatPlansAndTheFirstCallTake) {
  EXPECT_EQ(read_more("").plan_ms, 0);
  EXPECT_FALSE(read_more("").warm_up_ms);
  const SubjectInfo info = read_more(R"("plan_ms":20.5,"warm_up_ms":0)");
  EXPECT_EQ(info.plan_ms, 20.5);
  EXPECT_EQ(info.device, "");
  EXPECT_EQ(read_more(R"("device":"cuda:0")").device, "cuda:0");
  EXPECT_EQ(info.warm_up_ms, 0);
  for (const char* wrong : {R"("plan_ms":-1)", R"("plan_ms":"fast")", R"("plan_ms":1e300)", R"("warm_up_ms":true)"})
    EXPECT_THROW(read_more(wrong), Error) << wrong;
}

TEST(Describe, SentencesAndWhatTheyAreAbout) {
  const SubjectInfo info = read_more(
      R"("supports":{"forms":{"mask":["full","1d","0d"]}},
         "documents":{"causal":"Manual 3: \"j <= i\"","scale":["one","two"],"form.mask=1d":"ranks","form.mask":"shapes",
                      "empty_row":"zeros","deterministic":"the same bits","bias":"ranks","softcap":"ranks"})");
  const auto about = [&](const char* problem, std::vector<std::string_view> promises = {}) {
    std::vector<std::string> found;
    for (const Quote& quote : quotes_on(info.documents, problem_from_text(problem), promises))
      found.push_back(quote.text);
    return found;
  };
  using Found = std::vector<std::string>;
  EXPECT_EQ(about("lk=1"), Found{});
  EXPECT_EQ(about("lk=1 causal=1"), Found{"Manual 3: \"j <= i\""});
  EXPECT_EQ(about("lk=1 scale=0"), (Found{"one", "two"}));
  EXPECT_EQ(about("lk=1 form.mask=1d"), Found{"ranks"});
  EXPECT_EQ(about("lk=1 form.mask=0d"), Found{"shapes"});
  EXPECT_EQ(about("lk=1", {"empty_row"}), Found{"zeros"});
  EXPECT_EQ(about("lk=1 bias=zero softcap=2 form.mask=1d"), Found{"ranks"});
}

TEST(Describe, ReadsTheInterfacesExample) {
  const SubjectInfo info = read(R"({"ops":["attention"],"dtypes":["f16","bf16","f32"],"concurrent":true,
    "supports":{"causal":true,"align":["bottom_right"],"gqa":true,"bias":true,"bias_dtypes":["same","bf16"],
      "keep":true,"kv_lengths":false,"window":false,"softcap":true,"lse":false,"stages":["scores"],"scale":"positive",
      "strides":"last_dim_contiguous","alignment":16,"dims":{"b":[0,null,1],"lq":[1,null,1],"d":[8,256,8],"dv":"=d"}},
    "contract":{"policy":"f16","exp_ulp":2,"empty_row":"zero","batch_invariant":"bitwise","deterministic":"threads",
      "softcap_before_bias":false,"nan":"propagates","masked_unread":true}})");
  EXPECT_TRUE(info.concurrent);
  const Supports& s = info.supports;
  EXPECT_FALSE(s.top_left || s.kv_lengths || s.window || s.lse);
  EXPECT_EQ(s.bias_types, (std::array{true, false, false, true, false}));
  EXPECT_TRUE(s.bottom_right && s.dv_equals_d && s.softcap);
  EXPECT_EQ(s.scale, Supports::Scale::positive);
  EXPECT_EQ(s.strides, Supports::Strides::last_dim_contiguous);
  EXPECT_EQ(s.alignment, 16);
  EXPECT_EQ(s.b.min, 0);
  EXPECT_EQ(s.d.min, 8);
  EXPECT_EQ(s.d.max, 256);
  EXPECT_EQ(s.d.multiple, 8);
  EXPECT_EQ(s.stages, std::vector<std::string>{"scores"});
  EXPECT_EQ(info.semantics.arithmetic.exp_ulp, 2);
  EXPECT_EQ(info.semantics.empty_row, EmptyRow::zero);
  EXPECT_EQ(info.semantics.batch_invariant, BatchInvariance::bitwise);
  EXPECT_EQ(info.semantics.deterministic, Deterministic::threads);
  EXPECT_FALSE(info.semantics.softcap_before_bias);
}

TEST(Describe, APolicySpeaksOfTheDtypeThatItStores) {
  const SubjectInfo named = read_more(R"("contract":{"policy":"f16"})", R"(["f16","f32","bf16"])");
  EXPECT_EQ(named.policies.at(0), policy_from_text("f16"));
  EXPECT_EQ(named.policies.at(1), policy_from_text("f32"));
  EXPECT_EQ(named.policies.at(2), policy_from_text("bf16-all"));
  EXPECT_FALSE(named.policy_declared);
  EXPECT_TRUE(read_more(R"("contract":{"policy":"f16"})", R"(["f16"])").policy_declared);

  const SubjectInfo stages = read_more(R"("contract":{"policy":"softmax=f16,partial=f16"})", R"(["f16","bf16"])");
  EXPECT_EQ(stages.policies.at(0), policy_from_text("f16,softmax=f16,partial=f16"));
  EXPECT_EQ(stages.policies.at(1), policy_from_text("bf16,softmax=f16,partial=f16"));
  EXPECT_TRUE(stages.policy_declared);

  const SubjectInfo pattern = read_more(R"("contract":{"policy":"*=f16,qk=f32"})", R"(["f16","f32"])");
  EXPECT_EQ(pattern.policies.at(0), policy_from_text("f16-all,qk=f32"));
  EXPECT_EQ(pattern.policies.at(1), policy_from_text("f32"));

  const SubjectInfo each = read_more(R"("contract":{"policy":{"f16":"f16-acc16","f32":"f32"}})", R"(["f16","f32"])");
  EXPECT_EQ(each.policies.at(0), policy_from_text("f16-acc16"));
  EXPECT_TRUE(each.policy_declared);
  EXPECT_EQ(each.contract(Format::f16).policy, policy_from_text("f16-acc16"));
}

TEST(Describe, ANumberMayDifferBetweenDtypes) {
  const SubjectInfo info =
      read_more(R"("contract":{"exp_ulp":{"f32":20},"div_ulp":2,"empty_row":"zero"})", R"(["f16","f32"])");
  EXPECT_EQ(info.contract(Format::f16).arithmetic.exp_ulp, 1);
  EXPECT_EQ(info.contract(Format::f32).arithmetic.exp_ulp, 20);
  EXPECT_EQ(info.contract(Format::f16).arithmetic.div_ulp, 2);
  EXPECT_EQ(info.contract(Format::f32).arithmetic.div_ulp, 2);
  EXPECT_EQ(info.contract(Format::f32).empty_row, EmptyRow::zero);
}

TEST(Describe, AnOpThatIsNotTestedYetIsAUsageError) {
  try {
    read(R"({"ops":["conv","rope"],"dtypes":["f32"]})");
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    EXPECT_EQ(
        std::string(error.what()),
        "./p.so:k offers conv, rope alone, which this version does not test: it tests attention, layer_norm, mha");
  }
  EXPECT_EQ(read(R"({"ops":["rope","attention"],"dtypes":["f32"],"supports":{"rope":{"pairs":8},"attention":{}}})")
                .ops.size(),
            2u);
}

// ---- layer_norm -----------------------------------------------------------------------------------------------------

TEST(Describe, OfItsOnlyOperationNeedsNoName) {
  const SubjectInfo info = read(R"({"ops":["layer_norm"],"dtypes":["f16","f32"],
    "supports":{"norms":["rms"],"residual":false,"sum_out":false,"gamma":"required","beta":false,"param_dtypes":["f32"],
      "strides":"last_dim_contiguous","far":true,"alignment":16,"dims":{"rows":[0,null,1],"hidden":[8,8192,8]}},
    "contract":{"policy":"f16","variance":"welford","merge":"delta","merge_depth":{"f16":3,"f32":4},"depth":{"lanes":8},
      "rsqrt_ulp":{"f32":2},"gamma_offset":1,"nan":"propagates","deterministic":"rerun"}})");
  ASSERT_TRUE(info.layer_norm.has_value());
  const layer_norm::Supports& s = info.layer_norm->supports;
  EXPECT_FALSE(s.layer || s.residual || s.sum_out || s.no_gamma || s.beta || s.param_same);
  EXPECT_TRUE(s.rms && s.gamma && s.no_beta && s.param_f32 && s.far);
  EXPECT_EQ(s.strides, Strides::last_dim_contiguous);
  EXPECT_EQ(s.alignment, 16);
  EXPECT_EQ(s.rows.min, 0);
  EXPECT_EQ(s.hidden.max, 8192);
  EXPECT_EQ(s.hidden.multiple, 8);
  const layer_norm::Contract f16 = info.layer_norm->contract(Format::f16, info.name),
                             f32 = info.layer_norm->contract(Format::f32, info.name);
  EXPECT_EQ(f16.policy, layer_norm::policy_from_text("f16"));
  EXPECT_EQ(f32.policy, layer_norm::policy_from_text("f32"));
  EXPECT_FALSE(info.layer_norm->policy_declared);  // it states none for f32
  EXPECT_EQ(f16.arithmetic.variance, layer_norm::Variance::welford);
  EXPECT_EQ(f16.arithmetic.merge_depth, 3);
  EXPECT_EQ(f32.arithmetic.merge_depth, 4);
  EXPECT_EQ(f16.arithmetic.rsqrt_ulp, 1);
  EXPECT_EQ(f32.arithmetic.rsqrt_ulp, 2);
  EXPECT_EQ(f32.arithmetic.depth, (layer_norm::Depth{layer_norm::Lanes{8, 1}}));
  EXPECT_EQ(f32.gamma_offset, 1);
  EXPECT_EQ(f32.nan, NanRule::propagates);
  EXPECT_EQ(f32.deterministic, Deterministic::rerun);
}

TEST(Describe, AResidualMayHaveToBeThere) {
  const auto offer =
      read(R"({"ops":["layer_norm"],"dtypes":["f32"],"supports":{"residual":"required"}})").layer_norm.value();
  EXPECT_TRUE(offer.supports.residual && !offer.supports.no_residual);
  const auto reason = [&](std::string_view residual) {
    return layer_norm::declined(layer_norm::problem_from_text(fmt::format("rows=1 hidden=2 residual={}", residual)),
                                offer.supports, offer.dtypes);
  };
  EXPECT_EQ(reason("none"), "the subject needs a residual");
  EXPECT_EQ(reason("like_x"), std::nullopt);
}

TEST(Describe, ALayerNormWithoutAPolicyIsReadMostGenerously) {
  const SubjectInfo info = read(R"({"ops":["layer_norm"],"dtypes":["f16","bf16","f32"]})");
  const layer_norm::Offer& offer = info.layer_norm.value();
  EXPECT_FALSE(offer.policy_declared);
  for (const auto& [dtype, policy] :
       {std::pair{Format::f16, "f16-all"}, {Format::bf16, "bf16-all"}, {Format::f32, "f32"}})
    EXPECT_EQ(offer.contract(dtype, info.name).policy, layer_norm::policy_from_text(policy)) << policy;
  EXPECT_TRUE(offer.supports.layer && offer.supports.rms && offer.supports.residual && offer.supports.sum_out &&
              offer.supports.no_residual && offer.supports.gamma && offer.supports.no_gamma && offer.supports.beta &&
              offer.supports.no_beta && offer.supports.param_same && offer.supports.param_f32);
  EXPECT_EQ(offer.supports.rows.min, 1);
}

TEST(Describe, OfTwoOperationsEachHasItsOwn) {
  const SubjectInfo info = read(R"({"ops":["layer_norm","attention"],"dtypes":["f16"],
    "supports":{"attention":{"causal":false},"layer_norm":{"norms":["layer"]}},
    "contract":{"attention":{"policy":"f16,softmax=f16","exp_ulp":3},"layer_norm":{"policy":"*=f16,statistics=f32","kappa":3}}})");
  EXPECT_FALSE(info.supports.causal);
  EXPECT_FALSE(info.layer_norm->supports.rms);
  EXPECT_TRUE(info.policy_declared && info.layer_norm->policy_declared);
  EXPECT_EQ(info.contract(Format::f16).arithmetic.exp_ulp, 3);
  const layer_norm::Contract contract = info.layer_norm->contract(Format::f16, info.name);
  EXPECT_EQ(contract.arithmetic.kappa, 3);
  EXPECT_EQ(contract.policy, layer_norm::policy_from_text("f16-all,statistics=f32"));
}

TEST(Describe, OfTwoOperationsWithoutNamesItSpeaksOfAttention) {
  const SubjectInfo info = read(R"({"ops":["layer_norm","attention"],"dtypes":["f32"],
    "supports":{"alignment":16},"contract":{"policy":"f32","exp_ulp":3}})");
  EXPECT_EQ(info.supports.alignment, 16);
  EXPECT_EQ(info.layer_norm->supports.alignment, 1);
  EXPECT_TRUE(info.policy_declared);
  EXPECT_FALSE(info.layer_norm->policy_declared);
}

TEST(Describe, OneOperationMayBeNamedAlone) {
  const SubjectInfo info =
      read(R"({"ops":["layer_norm","attention"],"dtypes":["f32"],"contract":{"layer_norm":{"policy":"f32"}}})");
  EXPECT_FALSE(info.policy_declared);
  EXPECT_TRUE(info.layer_norm->policy_declared);
}

// ---- mha ------------------------------------------------------------------------------------------------------------

TEST(Describe, OfABlockHasItsOwnKeys) {
  const SubjectInfo info = read(R"({"ops":["mha"],"dtypes":["f16","f32"],
    "supports":{"memory":["self"],"in_biases":"required","out_bias":false,"causal":true,"align":["top_left"],"gqa":false,
      "bias":false,"keep":true,"kv_lengths":false,"scale":"default","stages":["q","heads"],"strides":"contiguous",
      "alignment":16,"dims":{"l":[1,512,1],"head_dim":"=e/heads"}},
    "contract":{"policy":"f16,gemm=f16","gemm_chain":{"f32":{"lanes":8},"f16":12},"projections":["rounded","separate"],
      "heads":"unrounded","drops_b_k":true,"empty_row":"zero","exp_ulp":{"f32":2}}})");
  const mha::Supports& s = info.mha.value().supports;
  EXPECT_TRUE(s.self && s.in_biases && s.causal && s.top_left && s.keep && s.no_out_bias && s.heads_fill_e);
  EXPECT_FALSE(s.cross || s.no_in_biases || s.out_bias || s.bottom_right || s.gqa || s.bias || s.kv_lengths || s.far);
  EXPECT_EQ(s.scale, mha::Supports::Scale::only_default);
  EXPECT_TRUE(s.stage_q && s.stage_heads && s.gives_stages());
  EXPECT_FALSE(s.stage_k || s.stage_v);
  EXPECT_EQ(s.strides, Strides::contiguous);
  EXPECT_EQ(s.alignment, 16);
  EXPECT_EQ(s.l.max, 512);
  EXPECT_FALSE(info.mha->policy_declared);  // it states none for f32
  const mha::Contract &f16 = info.mha->contract(Format::f16, info.name),
                      &f32 = info.mha->contract(Format::f32, info.name);
  EXPECT_EQ(f16.gemm, Format::f16);
  EXPECT_EQ(f32.gemm, Format::f32);
  EXPECT_EQ(f16.gemm_chain, (mha::Chain{12, 0, 1}));
  EXPECT_EQ(f32.gemm_chain, (mha::Chain{0, 8, 1}));
  EXPECT_EQ(f32.attention.arithmetic.exp_ulp, 2);
  EXPECT_TRUE(f16.projections[1] && f16.projections[2] && !f16.projections[0]);
  EXPECT_TRUE(f16.heads_unrounded && !f16.heads_rounded && f16.drops_b_k);
  EXPECT_EQ(f16.attention.empty_row, EmptyRow::zero);
}

TEST(Describe, ABlockWithoutAPolicyIsReadMostGenerously) {
  const SubjectInfo info = read(R"({"ops":["mha"],"dtypes":["f16"]})");
  EXPECT_FALSE(info.mha.value().policy_declared);
  EXPECT_EQ(info.mha->contract(Format::f16, info.name), mha::contract_for(mha::policy_from_text("f16-all")));
  EXPECT_FALSE(info.mha->supports.gives_stages());
}

TEST(Describe, ABlockBesideTheOthersHasItsOwn) {
  const SubjectInfo info = read(R"({"ops":["mha","layer_norm","attention"],"dtypes":["f16"],
    "supports":{"mha":{"gqa":false},"layer_norm":{"residual":false}},
    "contract":{"mha":{"policy":"f16","gemm_chain":3},"attention":{"policy":"f16-acc16"}}})");
  EXPECT_FALSE(info.mha.value().supports.gqa);
  EXPECT_TRUE(info.supports.gqa);
  EXPECT_FALSE(info.layer_norm.value().supports.residual);
  EXPECT_EQ(info.mha->contract(Format::f16, info.name).attention.policy, policy_from_text("f16"));
  EXPECT_EQ(info.contract(Format::f16).policy, policy_from_text("f16-acc16"));
}

struct Wrong {
  const char* describe;
  const char* sentence;
};
void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.describe; }

class DescribeRefuses : public ::testing::TestWithParam<Wrong> {};

TEST_P(DescribeRefuses, NamingTheKey) {
  try {
    read(GetParam().describe);
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::no_subject);
    EXPECT_TRUE(std::regex_search(error.what(), std::regex(GetParam().sentence))) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

#define ATTEST_DESCRIBE(rest) R"({"ops":["attention"],"dtypes":["f32"],)" rest "}"

#define ATTEST_DESCRIBE_NORM(rest) R"({"ops":["layer_norm"],"dtypes":["f16","f32"],)" rest "}"

INSTANTIATE_TEST_SUITE_P(
    OfLayerNorm, DescribeRefuses,
    ::testing::Values(
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":[])"), "'supports' must be an object"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"causal":true})"), "no key 'supports.causal' of layer_norm"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"forms":{}})"), "no key 'supports.forms' of layer_norm"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"norms":"rms"})"), "'supports.norms' must be a list of layer, rms"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"norms":["group"]})"),
              "'supports.norms' must be a list of layer, rms"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"norms":[]})"), "'supports.norms' must be a list that is not empty"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"residual":"always"})"),
              "'supports.residual' must be true, false or \"required\""},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"sum_out":1})"), "'supports.sum_out' must be true or false"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"gamma":"needed"})"),
              "'supports.gamma' must be true, false or \"required\""},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"beta":0})"), "'supports.beta' must be true, false or \"required\""},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"param_dtypes":["f16"]})"),
              "'supports.param_dtypes' must be a list of same, f32"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"param_dtypes":[]})"), "'supports.param_dtypes' .* not empty"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"strides":"some"})"), "any, last_dim_contiguous"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"far":null})"), "'supports.far' must be true or false"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"alignment":3})"), "a power of two up to 256"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"dims":{"lk":[1,2,1]}})"),
              "no 'supports.dims.lk': dims of layer_norm are rows, hidden"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"dims":{"rows":[2,1,1]}})"), "'supports.dims.rows' .* at least 2"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"dims":{"hidden":"any"}})"), "'supports.dims.hidden' must be a list"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("contract":[])"), "contract: it must be a JSON object"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("contract":{"exp_ulp":1})"), "layer_norm has no key 'exp_ulp'"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("contract":{"depth":{"lane":8}})"), "depth must be a number"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("contract":{"depth":{"f64":8}})"),
              "'contract.depth' speaks of dtype 'f64', which the subject does not offer"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("contract":{"epsilon":"outside"})"), "epsilon must be \"inside\""},
        Wrong{ATTEST_DESCRIBE_NORM(R"("contract":{"policy":"softmax=f16"})"), "matches no stage of layer_norm"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("contract":{"policy":{"bf16":"bf16"}})"), "speaks of dtype 'bf16'"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("contract":{"gamma_offset":{"f16":0,"f32":1}})"), "differs between dtypes"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("contract":{"merge":"delta"})"), "merge and merge_depth are of welford"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"layer_norm":{"causal":1}})"), "no key 'supports.layer_norm.causal'"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"layer_norm":[]})"), "'supports.layer_norm' must be an object"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"attention":{}})"), "'supports.attention' is no operation in 'ops'"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("supports":{"layer_norm":{},"far":true})"),
              "'supports.far' is no operation in 'ops'"},
        Wrong{ATTEST_DESCRIBE_NORM(R"("contract":{"layer_norm":{"policy":{"f16":"f32"}}})"),
              "'contract.layer_norm.policy.f16' must be a policy that stores f16"},
        Wrong{R"({"ops":["layer_norm","attention"],"dtypes":["f32"],"supports":{"attention":{"forms":[]}}})",
              "'supports.attention.forms' must be an object of lists"},
        Wrong{R"({"ops":["layer_norm","attention"],"dtypes":["f32"],"supports":{"attention":{"casual":true}}})",
              "no key 'supports.attention.casual'"}));

#define ATTEST_DESCRIBE_BLOCK(rest) R"({"ops":["mha"],"dtypes":["f16","f32"],)" rest "}"

INSTANTIATE_TEST_SUITE_P(
    OfMha, DescribeRefuses,
    ::testing::Values(
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("supports":[])"), "'supports' must be an object"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("supports":{"softcap":true})"), "no key 'supports.softcap' of mha"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("supports":{"memory":"self"})"),
              "'supports.memory' must be a list of self, cross"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("supports":{"memory":[]})"),
              "'supports.memory' must be a list that is not empty"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("supports":{"in_biases":1})"),
              "'supports.in_biases' must be true, false or \"required\""},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("supports":{"stages":["scores"]})"),
              "'supports.stages' must be a list of q, k, v, heads"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("supports":{"scale":"one"})"), "any, positive, default"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("supports":{"dims":{"d":[1,2,1]}})"),
              "no 'supports.dims.d': dims of mha are b, l, m, e, heads, kv_heads, head_dim"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("supports":{"dims":{"e":"=e/heads"}})"), "'supports.dims.e' must be a list"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("contract":[])"), "contract: it must be a JSON object"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("contract":{"projections":"folded"})"),
              "one or more of unrounded, rounded, separate"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("contract":{"gemm_chain":{"f64":8}})"),
              "'contract.gemm_chain' speaks of dtype 'f64', which the subject does not offer"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("contract":{"gemm_chain":{"rows":8}})"),
              "gemm_chain has lanes and block, no rows"},
        Wrong{ATTEST_DESCRIBE_BLOCK(R"("contract":{"policy":{"f16":"f32"}})"),
              "'contract.policy.f16' must be a policy that stores f16"}));

INSTANTIATE_TEST_SUITE_P(
    All, DescribeRefuses,
    ::testing::Values(
        Wrong{"", "describe is no JSON"}, Wrong{"{\"ops\":[\"a\xff", "describe is no JSON"},
        Wrong{"[]", "must be a JSON object"}, Wrong{"null", "must be a JSON object"},
        Wrong{R"({"dtypes":["f32"]})", "'ops' is missing"}, Wrong{R"({"ops":["attention"]})", "'dtypes' is missing"},
        Wrong{R"({"ops":"attention","dtypes":["f32"]})", "'ops' must be a list"},
        Wrong{R"({"ops":[],"dtypes":["f32"]})", "'ops' must be a list"},
        Wrong{R"({"ops":[1],"dtypes":["f32"]})", "'ops' must be a list"},
        Wrong{R"({"ops":["attention"],"dtypes":[]})", "'dtypes' must be a list that is not empty"},
        Wrong{R"({"ops":["attention"],"dtypes":["f31"]})", "'dtypes' must be a list of f16, bf16"},
        Wrong{R"({"ops":["attention"],"dtypes":["tf32"]})", "'dtypes' must be a list of f16, bf16"},
        Wrong{ATTEST_DESCRIBE(R"("dtype":"f32")"), "no key 'dtype'"},
        Wrong{ATTEST_DESCRIBE(R"("concurrent":1)"), "'concurrent' must be true or false"},
        Wrong{ATTEST_DESCRIBE(R"("supports":[])"), "'supports' must be an object"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"causal":"yes"})"), "'supports.causal' must be true"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"gqq":true})"), "no key 'supports.gqq'"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"align":"top_left"})"), "'supports.align' must be a list"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"align":["left"]})"), "top_left, bottom_right"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"bias_dtypes":["i32"]})"), "same, f32, f16, bf16, f64"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"stages":["softmax"]})"), "scores, weights"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"scale":"some"})"), "any, positive, default"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"strides":true})"), "any, last_dim_contiguous"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"alignment":0})"), "'supports.alignment' must be an integer"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"alignment":1e300})"), "an integer of at least 1"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"alignment":24})"), "a power of two up to 256"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"alignment":512})"), "a power of two up to 256"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"dims":[]})"), "'supports.dims' must be an object"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"dims":{"e":[1,2,1]}})"), "no 'supports.dims.e'"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"dims":{"d":[1,2]}})"), "supports.dims.d"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"dims":{"d":"=dv"}})"), "supports.dims.d"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"dims":{"d":[-1,2,1]}})"), "at least 0"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"dims":{"d":[3,2,1]}})"), "at least 3"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"dims":{"d":[1,2,0]}})"), "at least 1"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"dims":{"d":[5,7,4]}})"), "a multiple of its third"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":[]})"), "'supports.forms' must be an object of lists"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"Mask":["a"]}})"), "'supports.forms.Mask' must be named by"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":[]}})"), "a list of 1 to 16 values"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":"1d"}})"), "a list of 1 to 16 values"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":["a b"]}})"), "a list of words"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":["a","a"]}})"), "without 'a' twice"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":["a",{"value":"b","promise":{}}]}})"),
              "without 'promise'"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":["a",{"value":"b","contract":[]}]}})"), "an object as"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":[{"value":"b","contract":{}}]}})"), "the subject's own"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":["a",{"value":"b","contract":{"policy":"f15"}}]}})"),
              "f15"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":["a",{"value":"b","needs":["c"]}]}})"), "as 'needs'"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":["a",{"value":"b","needs":{"past":"c"}}]}})"),
              "needs form.past=c"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":["a",{"value":"b","needs":{"mask":"a"}}]}})"),
              "no value of another form"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":["a",{"value":"b","where":1}]}})"), "as 'where'"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":[{"value":"b","where":"b>1"},"a"]}})"),
              "says any problem"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"drawn":true})"), "'supports.drawn' must be a predicate"},
        Wrong{ATTEST_DESCRIBE(R"("documents":[])"), "'documents' must be an object"},
        Wrong{ATTEST_DESCRIBE(R"("documents":{"casual":"a"})"), "'documents.casual' is about nothing of a call"},
        Wrong{ATTEST_DESCRIBE(R"("documents":{"form.mask":"a"})"), "'documents.form.mask' is about nothing of a call"},
        Wrong{ATTEST_DESCRIBE(R"("supports":{"forms":{"mask":["a"]}},"documents":{"form.mask=b":"a"})"), "form.mask=b"},
        Wrong{ATTEST_DESCRIBE(R"("documents":{"causal":1})"), "'documents.causal' must be a sentence of up to 400"},
        Wrong{ATTEST_DESCRIBE(R"("documents":{"causal":["a",""]})"), "'documents.causal' must be a sentence"},
        Wrong{ATTEST_DESCRIBE(R"("contract":{"policy":"f15"})"), "f15"},
        Wrong{ATTEST_DESCRIBE(R"("contract":{"policy":3})"), "'contract.policy' must be a policy"},
        Wrong{ATTEST_DESCRIBE(R"("contract":{"policy":{"f16":"f16"}})"), "dtype 'f16', which the subject"},
        Wrong{ATTEST_DESCRIBE(R"("contract":{"policy":{"f32":"f16"}})"), "a policy that stores f32"},
        Wrong{ATTEST_DESCRIBE(R"("contract":{"empty_row":"one"})"), "empty_row"},
        Wrong{ATTEST_DESCRIBE(R"("contract":{"emptyrow":"zero"})"), "no key 'emptyrow'"},
        Wrong{ATTEST_DESCRIBE(R"("contract":{"exp_ulp":{"f16":2}})"), "exp_ulp' speaks of dtype 'f16'"},
        Wrong{ATTEST_DESCRIBE(R"("contract":{"exp_ulp":{}})"), "exp_ulp"},
        Wrong{R"({"ops":["attention"],"dtypes":["f16","f32"],"contract":{"empty_row":{"f32":"zero"}}})",
              "in more than its policy and its numbers"},
        Wrong{ATTEST_DESCRIBE(R"("contract":[])"), "contract"}));

}  // namespace
}  // namespace attest
