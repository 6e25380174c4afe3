// The forms in which problems are drawn, and those that an assumption leaves.
#include <gtest/gtest.h>

#include <map>

#include "core/error.hpp"
#include "core/supports.hpp"
#include "generators/draw.hpp"

namespace attest {
namespace {

Supports with_forms() {
  Supports supports = Supports::everything();
  supports.forms = {{"build", {"dynamic"}}, {"mask", {"full", "1d", "row"}}, {"scale", {"input", "constant"}}};
  return supports;
}

TEST(Forms, EachIsDrawnAndSoAreAllTogether) {
  const Domain domain(with_forms(), {Format::f32});
  std::map<std::string, int> drawn;
  for (std::uint64_t n = 0; n < 2000; ++n) {
    const Problem problem = draw_problem(domain, 1, n, 1);
    EXPECT_FALSE(declined(problem, domain.supports(), domain.dtypes()));
    ++drawn[forms_json(problem.forms)];
  }
  EXPECT_EQ(drawn.size(), 6u);  // `build` has one value
  EXPECT_NEAR(drawn[""], 2000 * (0.25 + 0.75 / 4), 120);
  EXPECT_NEAR(drawn[R"({"mask":"1d"})"], 2000 * 0.75 / 8, 60);
  EXPECT_NEAR(drawn[R"({"mask":"row","scale":"constant"})"], 2000 * 0.75 / 8, 60);
}

TEST(Forms, ASubjectWithoutThemHasTheSameStream) {
  const Domain plain(Supports::everything(), {Format::f32}), domain(with_forms(), {Format::f32});
  for (std::uint64_t n = 0; n < 200; ++n) {
    Problem said = draw_problem(domain, 1, n, 1);
    said.forms.clear();
    EXPECT_EQ(said, draw_problem(plain, 1, n, 1));
  }
}

TEST(Forms, AreNarrowed) {
  Domain domain(with_forms(), {Format::f32});
  domain.narrow_form("mask", [](std::string_view value) { return value != "full"; });
  domain.narrow_form("scale", [](std::string_view value) { return value == "input"; });
  std::map<std::string, int> drawn;
  for (std::uint64_t n = 0; n < 200; ++n) ++drawn[forms_json(draw_problem(domain, 1, n, 1).forms)];
  EXPECT_EQ(drawn.size(), 2u);
  EXPECT_TRUE(drawn.contains(R"({"mask":"1d"})") && drawn.contains(R"({"mask":"row"})"));
  EXPECT_THROW(domain.narrow_form("mask", [](std::string_view value) { return value == "full"; }), Error);
  EXPECT_THROW(domain.narrow_form("past", [](std::string_view) { return true; }), Error);
}

TEST(Forms, WhatAValueNeedsComesAlongAndWhatAProblemCannotSayIsNotDrawn) {
  Supports supports = Supports::everything();
  supports.forms = {{"beam", {"none", "two"}, {{"two", {{"past", "shared"}}, "b%2==0"}}},
                    {"layout", {"bsnh", "bnsh"}, {{"bnsh", {{"past", "none"}}, ""}}},
                    {"past", {"none", "half", "shared"}, {{"shared", {}, "d==dv"}}}};
  Domain domain(supports, {Format::f32});
  domain.say_form_where("beam", "two", [](const Problem& p) { return p.b % 2 == 0; });
  domain.say_form_where("past", "shared", [](const Problem& p) { return p.d == p.dv; });
  EXPECT_THROW(domain.say_form_where("mask", "1d", [](const Problem&) { return true; }), Error);
  const auto said = [](const Problem& p, const FormOffer& offer) { return form_value(offer, p.forms); };
  std::map<std::string, int> drawn;
  for (std::uint64_t n = 0; n < 4000; ++n) {
    const Problem p = draw_problem(domain, 1, n, 1);
    const std::string beam = said(p, supports.forms[0]), layout = said(p, supports.forms[1]),
                      past = said(p, supports.forms[2]);
    EXPECT_TRUE(beam == "none" || (past == "shared" && p.b % 2 == 0 && layout == "bsnh")) << to_text(p);
    EXPECT_TRUE(layout == "bsnh" || past == "none") << to_text(p);
    EXPECT_TRUE(past != "shared" || p.d == p.dv) << to_text(p);
    ++drawn[forms_json(p.forms)];
  }
  EXPECT_EQ(drawn.size(), 5u);  // none, half, shared, bnsh, beams
  for (const auto& [forms, count] : drawn) EXPECT_GT(count, 100) << forms;
  // A value that an assumption asks for is drawn even so.
  domain.narrow_form("beam", [](std::string_view value) { return value == "two"; });
  EXPECT_EQ(said(draw_problem(domain, 1, 0, 1), supports.forms[0]), "two");
}

TEST(Forms, RulesLeaveTheOtherFieldsAsTheyAre) {
  Supports supports = with_forms();
  const Domain plain(supports, {Format::f32});
  supports.forms[2].rules = {{"constant", {{"mask", "1d"}}, ""}};
  const Domain domain(supports, {Format::f32});
  for (std::uint64_t n = 0; n < 200; ++n) {
    Problem ruled = draw_problem(domain, 1, n, 1), free = draw_problem(plain, 1, n, 1);
    ruled.forms.clear(), free.forms.clear();
    EXPECT_EQ(ruled, free);
  }
}

}  // namespace
}  // namespace attest
