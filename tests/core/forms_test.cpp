#include "core/forms.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "core/json_text.hpp"
#include "core/supports.hpp"

namespace attest {
namespace {

const char* const said =
    "op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 values=normal:1 seed=0 form.mask=1d form.scale=x.y-Z";
const FormOffer mask{"mask", {"full", "1d", "row"}};

std::string refusal(const std::string& line) {
  try {
    problem_from_text(line);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  ADD_FAILURE() << line << " was accepted";
  return {};
}

TEST(Forms, AProblemSaysThemInTextAndJson) {
  const Problem problem = problem_from_text("form.scale=x.y-Z lk=2 d=1 dv=1 form.mask=1d");
  EXPECT_EQ(to_text(problem), said);
  EXPECT_EQ(problem_from_text(said), problem);
  EXPECT_EQ(problem_from_json(parse_json(json_text(to_json(problem)))), problem);
  EXPECT_EQ(materialise(problem).form, R"({"mask":"1d","scale":"x.y-Z"})");
  EXPECT_EQ(forms_from_json_text(materialise(problem).form), problem.forms);
  EXPECT_TRUE(materialise(problem_from_text("lk=2")).form.empty());
}

TEST(Forms, ACallCarriesThem) {
  const Problem problem = problem_from_text(said);
  const Inputs inputs = materialise(problem).clone();
  EXPECT_STREQ(inputs.call(make_out(problem), {}).form, R"({"mask":"1d","scale":"x.y-Z"})");
  Inputs plain = materialise(problem_from_text("lk=2"));
  EXPECT_EQ(plain.call(make_out(problem), {}).form, nullptr);
  plain.set_options(inputs);
  EXPECT_NE(plain.call(make_out(problem), {}).form, nullptr);
}

TEST(Forms, WordsThatAreNoneAreNamed) {
  EXPECT_NE(refusal("lk=2 form.Mask=1d").find("form.Mask"), std::string::npos);
  EXPECT_NE(refusal("lk=2 form.=1d").find("form."), std::string::npos);
  EXPECT_NE(refusal("lk=2 form.mask=").find("form.mask="), std::string::npos);
  EXPECT_NE(refusal("lk=2 form.mask=a,b").find("a,b"), std::string::npos);
  EXPECT_NE(refusal("lk=2 form.mask=1d form.mask=row").find("twice"), std::string::npos);
  EXPECT_NE(refusal("lk=2 form.mask=" + std::string(33, 'a')).find("at most 32"), std::string::npos);
  std::string many = "lk=2";
  for (char c = 'a'; c < 'a' + 17; ++c) many += std::string(" form.") + c + "=x";
  EXPECT_NE(refusal(many).find("17 forms"), std::string::npos);
  for (const char* json : {R"({"mask":1})", R"(["mask"])", R"({"mask":"\u001b"})", "{", R"({"mask":{"a":"b"}})"})
    EXPECT_THROW(forms_from_json_text(json), Error) << json;
}

TEST(Forms, ASubjectIsAskedThoseThatItHas) {
  Supports supports;
  supports.forms = {mask};
  const std::array dtypes{Format::f32};
  const auto why = [&](const char* form) {
    return declined(problem_from_text(std::string("lk=2 d=1 dv=1 ") + form), supports, dtypes).value_or("");
  };
  EXPECT_EQ(why(""), "");
  EXPECT_EQ(why("form.mask=row"), "");
  EXPECT_EQ(why("form.mask=full"), "");
  EXPECT_EQ(why("form.mask=0d"), "the subject has no form.mask=0d: it has full, 1d, row");
  EXPECT_EQ(why("form.past=any"), "the subject has no form.past");
  // The same of a call.
  const Problem problem = problem_from_text("lk=2 d=1 dv=1 form.past=any");
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem);
  EXPECT_EQ(declined(inputs.call(out, {}), supports, dtypes), "the subject has no form.past");
}

TEST(Forms, TheFirstValueIsNotWrittenDown) {
  std::vector<FormChoice> choices{{"scale", "query"}};
  set_form(choices, mask, "row");
  EXPECT_EQ(choices, (std::vector<FormChoice>{{"mask", "row"}, {"scale", "query"}}));
  EXPECT_EQ(form_value(mask, choices), "row");
  set_form(choices, mask, "full");
  EXPECT_EQ(choices, (std::vector<FormChoice>{{"scale", "query"}}));
  EXPECT_EQ(form_value(mask, choices), "full");
}

TEST(Forms, WhatAFormPromisesReplacesTheContract) {
  SubjectInfo info;
  info.policies = {Policy(Format::f32)};
  const auto promise = [&](std::vector<FormChoice> forms, double ulp) {
    Contract contract = info.contract(Format::f32);
    contract.arithmetic.exp_ulp = ulp;
    info.form_contracts.push_back({std::move(forms), {contract}});
  };
  const std::vector<FormChoice> hint{{"hint", "f16"}}, both{{"build", "static"}, {"hint", "f16"}};
  promise(hint, 7);
  promise(both, 9);
  const auto ulp = [&](const std::vector<FormChoice>& forms) {
    return info.contract(Format::f32, forms).arithmetic.exp_ulp;
  };
  EXPECT_EQ(ulp({}), info.contract(Format::f32).arithmetic.exp_ulp);
  EXPECT_EQ(ulp({{"build", "static"}}), ulp({}));
  EXPECT_EQ(ulp(hint), 7);
  EXPECT_EQ(ulp(both), 9);
  EXPECT_EQ(ulp({{"build", "other"}, {"hint", "f16"}, {"mask", "1d"}}), 7);
}

}  // namespace
}  // namespace attest
