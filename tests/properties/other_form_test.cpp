// other-form: two forms of a fake that agree, disagree, promise differently, and disagree where nothing is promised.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/tensor.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

const std::string plain = "b=2 hq=2 hkv=2 lq=5 lk=7 d=4 dv=3 dtype=f32 scale=0x1.8p-2 lse=f32 values=normal:1 seed=11";

bool in_second_form(const attest_attention& call) { return call.form != nullptr; }

// A fake with forms `way` (one, two); the second is as good as `other` makes it.
class TwoWays : public test::Fake {
 public:
  explicit TwoWays(const test::Kernel& other)
      : Fake([other](const attest_attention& call) { in_second_form(call) ? other(call) : test::attend(call); }) {
    edit().supports.forms = {{"way", {"one", "two"}}};
    edit().policies = {policy_for(Format::f32)};
  }
};

Verdict verdict(TwoWays& subject, const std::string& problem, EmptyRow empty = EmptyRow::zero) {
  Contract contract = contract_for(policy_for(Format::f32));
  contract.empty_row = empty;
  return test::verdict_of("other-form", problem, subject, contract);
}

void one_percent(const attest_attention& call) {
  attest_attention wrong = call;
  wrong.scale *= 1.01;
  test::attend(wrong);
}

TEST(OtherForm, HoldsOfFormsWithOtherBits) {
  TwoWays subject([](const attest_attention& call) { test::attend_tiled(call, 2, true); });
  for (const char* form : {"", " form.way=two"}) {
    EXPECT_EQ(verdict(subject, plain + form).kind, VerdictKind::pass) << form;
  }
}

TEST(OtherForm, FailsWhereOneFormIsWrongWhicheverTheProblemHas) {
  TwoWays subject(one_percent);
  for (const char* form : {"", " form.way=two"}) {
    const Verdict found = verdict(subject, plain + form);
    ASSERT_EQ(found.kind, VerdictKind::fail) << form;
    EXPECT_NE(found.evidence->note.find(*form != '\0' ? "in its first forms" : "form.way=two"), std::string::npos)
        << found.evidence->note;
  }
}

TEST(OtherForm, HoldsEachResultToItsOwnContract) {
  // All of f16, and no more than that.
  const test::Kernel coarse = [](const attest_attention& call) {
    test::attend(call, {.score = [](const attest_attention&, double z, Index, Index, Index,
                                    Index) { return round_to(Format::f16, z); },
                        .open = {},
                        .output = {}});
  };
  TwoWays subject(coarse);
  EXPECT_EQ(verdict(subject, plain).kind, VerdictKind::fail);
  Contract f16 = contract_for(policy_from_text("*=f16,storage=f32,output=f32"));
  f16.empty_row = EmptyRow::zero;
  subject.edit().form_contracts = {{{{"way", "two"}}, {f16}}};
  EXPECT_EQ(verdict(subject, plain).kind, VerdictKind::pass);
  TwoWays wrong([](const attest_attention& call) {
    attest_attention twice = call;
    twice.scale *= 2;
    test::attend(twice);
  });
  wrong.edit().form_contracts = subject.info().form_contracts;
  EXPECT_EQ(verdict(wrong, plain).kind, VerdictKind::fail);
}

TEST(OtherForm, LetsAFormRoundItsResultAsItPromises) {
  const test::Kernel rounded = [](const attest_attention& call) {
    test::attend(call,
                 {.score = {}, .open = {}, .output = [](const attest_attention&, double y, Index, Index, Index, Index) {
                    return round_to(Format::f16, y);
                  }});
  };
  TwoWays subject(rounded);
  EXPECT_EQ(verdict(subject, plain).kind, VerdictKind::fail);
  Contract f16 = contract_for(policy_from_text("f32,output=f16"));
  f16.empty_row = EmptyRow::zero;
  subject.edit().form_contracts = {{{{"way", "two"}}, {f16}}};
  for (int seed = 0; seed < 20; ++seed)
    EXPECT_EQ(verdict(subject, plain + std::to_string(seed)).kind, VerdictKind::pass) << seed;
}

TEST(OtherForm, WarnsWhereTheContractLeavesTheResultOpen) {
  const test::Kernel nan_of_nothing = [](const attest_attention& call) {
    test::attend(call);
    for (std::int64_t c = 0; c < call.v.shape[3]; ++c)
      for (std::int64_t i = 0; i < call.q.shape[2]; ++i)
        store(call.out, 0, 0, i, c, std::numeric_limits<double>::quiet_NaN());
  };
  TwoWays subject(nan_of_nothing);
  const std::string empty = "b=2 hq=1 hkv=1 lq=2 lk=3 d=2 dv=2 dtype=f32 lengths=full edit=kv_lengths[0,0,0,0]:0x0p+0";
  const Verdict found = verdict(subject, empty, EmptyRow::unspecified);
  EXPECT_EQ(found.kind, VerdictKind::warn);
  ASSERT_TRUE(found.evidence);
  EXPECT_NE(found.evidence->note.find("forms disagree"), std::string::npos);
  subject.edit().documents = {{"form.way=two", "Two: as you like"}, {"form.way", "One: as ever"}, {"scale", "any"}};
  const std::string quoted = verdict(subject, empty, EmptyRow::unspecified).evidence->note;
  EXPECT_NE(quoted.find("form.way=two: Two: as you like; form.way: One: as ever"), std::string::npos) << quoted;
  EXPECT_EQ(quoted.find("scale"), std::string::npos);
  EXPECT_EQ(verdict(subject, empty, EmptyRow::zero).kind, VerdictKind::fail);
}

TEST(OtherForm, NeedsAnotherForm) {
  test::Fake subject([](const attest_attention& call) { test::attend(call); });
  EXPECT_EQ(test::verdict_of("other-form", plain, subject, contract_for(policy_for(Format::f32))).kind,
            VerdictKind::skip);
}

}  // namespace
}  // namespace attest
