#include "engine/assume.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.hpp"
#include "engine/stream.hpp"
#include "ops/attention.hpp"

namespace attest::engine {
namespace {

using attest::Problem;
using attest::problem_from_text;

Problem problem(const char* text) { return problem_from_text(text); }

TEST(Assume, EvaluatesFieldsLabelsAndArithmetic) {
  const Problem p = problem("b=2 hq=4 hkv=2 lq=3 lk=5 d=4 dv=1 dtype=f16 causal=1 keep=half scale=0x1p-1");
  for (const char* text :
       {"b==2", "lq<=lk && d>=4", "hq/hkv == 2", "dtype==f16", "f16 == dtype", "keep != none", "causal", "!(lk < lq)",
        "b*hq*lq == 24", "scale>0 && lq<=lk", "lk - lq == 2", "-b < 0", "lk % 2 == 1 && d % b == 0",
        "b == 9 || d == 4 && dv == 1", "scale == 0x1p-1", "d >= 0.4e1", "!!causal"})
    EXPECT_TRUE(Assumption(text).holds(p)) << text;
  for (const char* text : {"b!=2", "dtype==bf16", "!causal", "lk/0 < 0", "0/0 == 0", "b == 2 && d == 5"})
    EXPECT_FALSE(Assumption(text).holds(p)) << text;
}

TEST(Assume, ComparesForms) {
  const std::vector<FormOffer> offers{{"hint", {"none", "f16-all"}}, {"mask", {"full", "1d", "0d"}}};
  const Problem plain = problem("lk=2"), said = problem("lk=2 form.mask=1d form.hint=f16-all");
  const auto holds = [&](const char* text, const Problem& p) { return Assumption(text).about(offers).holds(p); };
  for (const char* text : {"form.mask==1d", "form.mask == 1d && lk==2", "lk==2&&form.hint==f16-all", "form.mask!=full",
                           "(form.mask==1d)", "!(form.mask==0d) && form.hint != none"}) {
    EXPECT_TRUE(holds(text, said)) << text;
    EXPECT_FALSE(holds(text, plain) && std::string(text).find("0d") == std::string::npos) << text;
  }
  EXPECT_TRUE(holds("form.mask==full && form.hint==none", plain));
  EXPECT_FALSE(holds("form.mask==full", said));
  EXPECT_THROW((void)Assumption("form.past==any").about(offers), Error);
  EXPECT_THROW((void)Assumption("form.mask==2d").about(offers), Error);
  for (const char* text : {"form.mask", "form.mask<1d", "form.==x", "form.mask==", "form.Mask==1d", "1d==form.mask"})
    EXPECT_THROW(Assumption{text}, Error) << text;
}

TEST(Assume, WhatASubjectSaysOfItsProblemsIsWhatIsDrawn) {
  SubjectInfo info;
  info.supports.drawn = "lk>=lq && form.past!=half";
  info.supports.forms = {{"past", {"none", "half", "shared"}, {{"shared", {}, "b%2==0"}}}};
  const auto& op = ops::attention_op();
  int shared = 0;
  for (const bool assumed : {false, true}) {
    const auto domain = domain_for(info, op, std::nullopt, assumed ? std::optional(Assumption("lk>2")) : std::nullopt);
    for (std::uint64_t n = 0; n < 300; ++n) {
      const ops::Problem drawn = domain->draw(1, n, 1).problem;
      const Problem& p = drawn.as<Problem>();
      EXPECT_TRUE(p.lk >= p.lq && (p.lk > 2 || !assumed)) << to_text(p);
      const std::string& past = form_value(info.supports.forms[0], p.forms);
      EXPECT_NE(past, "half");
      EXPECT_TRUE(past == "none" || p.b % 2 == 0) << to_text(p);
      shared += past == "shared";
    }
  }
  EXPECT_GT(shared, 10);
  info.supports.drawn = "lk>=nope";
  EXPECT_THROW(domain_for(info, op, std::nullopt, std::nullopt), Error);
  info.supports.drawn.clear(), info.supports.forms[0].rules[0].where = "form.mask==1d";
  EXPECT_THROW(domain_for(info, op, std::nullopt, std::nullopt), Error);
}

TEST(Assume, DefaultScaleIsItsEffect) {
  EXPECT_TRUE(Assumption("scale == 0.5").holds(problem("b=1 hq=1 hkv=1 lq=1 lk=1 d=4 dv=1")));
}

std::string message(const char* text) {
  try {
    Assumption assumption(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  ADD_FAILURE() << text << " was accepted";
  return {};
}

TEST(Assume, ErrorsNameTheTokenAndItsPosition) {
  EXPECT_NE(message("lq <= nope").find("'nope' at position 7"), std::string::npos);
  EXPECT_NE(message("lq <=").find("the end at position 6"), std::string::npos);
  EXPECT_NE(message("(lq < 3").find("')'"), std::string::npos);
  EXPECT_NE(message("lq < 3 lk").find("'lk' at position 8"), std::string::npos);
  EXPECT_NE(message("dtype == half").find("one of f16"), std::string::npos);
  EXPECT_NE(message("f16").find("beside its field"), std::string::npos);
  EXPECT_NE(message("1 < lq < 3").find("&&"), std::string::npos);
  EXPECT_NE(message("lq # 3").find("'#' at position 4"), std::string::npos);
  message("");
  message("0x");
  message("keep + none == 1");
  message(std::string(5000, '(').c_str());
  message(std::string(5000, '!').c_str());
  message(std::string(5000, '-').c_str());
}

TEST(Assume, SimpleBoundsBecomeIntervals) {
  const auto found =
      Assumption("3 < lq && lk <= 17.5 && b == 2 && causal == 1 && (d == 4 || dv == 4) && -1 < window_left")
          .intervals();
  EXPECT_EQ(found.at("lq").lo, 4);
  EXPECT_EQ(found.at("lk").hi, 17);
  EXPECT_EQ(found.at("b").lo, 2);
  EXPECT_EQ(found.at("b").hi, 2);
  EXPECT_EQ(found.at("causal").lo, 1);
  EXPECT_EQ(found.at("window_left").lo, 0);
  EXPECT_FALSE(found.contains("d"));
  EXPECT_FALSE(Assumption("!(lq < 3)").intervals().contains("lq"));
}

SubjectInfo any_subject() {
  SubjectInfo info;
  info.name = "test";
  info.dtypes = {Format::f32, Format::f16};
  info.policies = {policy_for(Format::f32), policy_for(Format::f16)};
  return info;
}

TEST(Assume, EveryDrawKeepsIt) {
  const Assumption assumption("lq > lk && d <= 16 && dtype == f16 && b >= 2");
  const auto domain = domain_for(any_subject(), ops::attention_op(), std::nullopt, assumption);
  std::uint64_t rejected = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Drawing drawing = domain->draw(7, i, 1);
    EXPECT_TRUE(assumption.holds(drawing.problem)) << to_text(drawing.problem);
    rejected += drawing.rejected;
  }
  EXPECT_GT(rejected, 0u);  // lq > lk cannot be narrowed to
}

// A condition on extents and dtype alone is asked early, and changes neither the draws nor the number turned away.
TEST(Assume, AnEarlyRefusalChangesNoDraw) {
  const Op& op = ops::attention_op();
  SubjectInfo info;
  info.dtypes = {Format::f16, Format::f32};
  for (const char* text :
       {"b*hq*lq*lk*(d+dv) >= 2048 && b*hq*lq*lk*(d+dv) < 65536", "(dv+d)*lk*lq*hq*b > 8191 && lq < lk",
        "lq*lk < 500 && scale*softcap < 1", "keep != none || lq < lk"}) {
    const Assumption assume(text);
    const auto early = domain_for(info, op, std::nullopt, assume), late = op.domain(info, info.dtypes);
    late->assume([&](const ops::Problem& drawn) { return assume.holds(drawn); });
    for (std::uint64_t n = 0; n < 200; ++n) {
      const auto one = early->draw(7, n, 1), other = late->draw(7, n, 1);
      ASSERT_EQ(to_text(one.problem), to_text(other.problem)) << text;
      ASSERT_EQ(one.rejected, other.rejected) << text;
    }
  }
  EXPECT_TRUE(Assumption("causal && b*hq < 3").of_shape());
  EXPECT_FALSE(Assumption("causal && b*hq < 3").of_shape()->holds(problem("b=3 causal=1")));
  EXPECT_TRUE(Assumption("causal && b*hq < 3").of_shape()->holds(problem("b=2")));
  EXPECT_FALSE(Assumption("causal || b < 3").of_shape());
  EXPECT_FALSE(Assumption("b < window_left").of_shape());
}

TEST(Assume, KnowsTheLeastWorkAndTheMost) {
  EXPECT_EQ(Assumption("b*hq*lq*lk*(d+dv) >= 2048 && 4096 < (dv+d)*lk*b*hq*lq && causal").work().least, 4096);
  for (const char* none :
       {"b*hq*lq*lk*(d+dv) <= 2048", "b*hq*lq*lk*(d+dv) >= 2048 || causal", "b*hq*lq*lk*d >= 2048",
        "b*hq*lq*lk*(d+dv)*2 >= 2048", "b*hq*lq*lq*(d+dv) >= 2048", "b*hq*lq*lk*(d+dv)*(d+dv) >= 2048",
        "2048 >= b*hq*lq*lk*(d+dv)", "b*hq*lq*lk*(d+dv+d) >= 2048"})
    EXPECT_EQ(Assumption(none).work().least, 0) << none;
  EXPECT_EQ(Assumption("b*hq*lq*lk*(d+dv) < 2048 && 4096 >= (dv+d)*lk*b*hq*lq && b < 9").work().most, 2048);
  for (const char* none : {"b*hq*lq*lk*(d+dv) >= 2048", "b*hq*lq*lk*(d+dv) <= 2048 || causal", "b*hq*lq*lk*d < 2048",
                           "b*hq*lq*lk*(d+dv) < 1e16", "2048 < b*hq*lq*lk*(d+dv)"})
    EXPECT_EQ(Assumption(none).work().most, std::numeric_limits<double>::infinity()) << none;
}

TEST(Assume, SaysHowMuchOfTheDomainIsGivenUp) {
  EXPECT_EQ(given_up(any_subject(), ops::attention_op(), std::nullopt, Assumption("b >= 0")), 0);
  EXPECT_EQ(given_up(any_subject(), ops::attention_op(), std::nullopt, Assumption("b < 0")), 1);
  EXPECT_NEAR(given_up(any_subject(), ops::attention_op(), std::nullopt, Assumption("dtype == f16")), 0.5, 0.1);
}

TEST(Assume, WhatLeavesNothingIsRefused) {
  EXPECT_THROW(domain_for(any_subject(), ops::attention_op(), std::nullopt, Assumption("b < 2 && b > 2")), Error);
  EXPECT_THROW(domain_for(any_subject(), ops::attention_op(), std::nullopt, Assumption("dtype == f64")), Error);
  EXPECT_THROW(domain_for(any_subject(), ops::attention_op(), policy_for(Format::bf16), std::nullopt), Error);
}

TEST(Shards, PartTheStreamAndKeepShapesTogether) {
  for (const std::uint64_t repeat : {1, 4})
    for (const std::uint64_t count : {1, 2, 3, 7}) {
      std::vector<int> owners(60);
      for (std::uint64_t index = 1; index <= count; ++index) {
        const Shard shard{index, count};
        for (std::uint64_t i = shard.next(0, repeat); i < 60; i = shard.next(i + 1, repeat)) {
          ++owners[i];
          EXPECT_EQ(i / repeat % count, index - 1);
        }
      }
      for (const int times : owners) EXPECT_EQ(times, 1);
    }
}

TEST(Assume, RefusesAChainTooLongToEvaluate) {
  std::string chain = "1";
  for (int i = 0; i < 100000; ++i) chain += "+1";
  EXPECT_THROW(Assumption{chain}, Error);
  EXPECT_TRUE(Assumption(chain.substr(0, 4095)).holds(Problem{}));
}

}  // namespace
}  // namespace attest::engine
