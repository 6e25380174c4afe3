// Two subjects on one stream: tests which results differ, which subject is at fault, which questions stay open, and
// which files are kept.
#include "engine/compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "demanding_subject.hpp"
#include "engine/bucket.hpp"
#include "engine/campaign.hpp"
#include "engine/instance.hpp"
#include "engine/key.hpp"
#include "engine/replay.hpp"
#include "engine/stream.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"
#include "temporary_folder.hpp"

namespace attest::engine {
namespace {

using attest::Contract;
using attest::Policy;
using attest::Problem;

using Owned = std::unique_ptr<SubjectFactory>;

Owned builtin(const std::string& name, const std::optional<ops::Policy>& policy = {}) {
  return builtin_subject(name, policy ? to_text(*policy) : std::string());
}

CampaignOptions options(std::uint64_t cases, const std::string& a = "builtin:fused",
                        const std::string& b = "external:b") {
  CampaignOptions options;
  options.verb = "compare";
  options.subject = a;
  options.subject_b = {b, {}, {}};
  options.laws.compare = LawChoice::Compare::bound;
  options.cases = cases;
  options.seed = 11;
  options.jobs = 2;
  return options;
}

Summary run(Owned a, Owned b, const CampaignOptions& options) {
  const Compared both = compared(*ops::all_ops().front(), std::move(a), std::move(b), options.policy);
  Observer silent;
  return run_campaign(*both.a, both.b.get(), options, silent);
}
Summary run(const std::string& a, const std::string& b, CampaignOptions asked) {
  asked.subject = a;
  asked.subject_b->subject = b;
  return run(builtin(a, asked.policy), builtin(b, asked.policy), asked);
}

std::string facts(const Summary& summary) {
  nlohmann::ordered_json object = to_json(summary, [](const Finding&) { return std::string(); });
  object.erase("seconds");
  object.erase("seconds_in");
  for (const char* list : {"findings", "defects"})
    for (auto& one : object[list]) one.erase("seconds_to_first");
  return json_text(object, 1);
}

// A copy of `inner` that says something else of itself, and answers as `meddle` makes of its answers.
Owned changed(const SubjectFactory& inner, const std::function<void(SubjectInfo&)>& say,
              const std::function<CallResult(const attest_attention&, CallResult)>& meddle) {
  SubjectInfo info = inner.info();
  say(info);
  return std::make_unique<test::FakeFactory>(std::move(info), [&inner, meddle]() -> test::Answer {
    const std::shared_ptr<Subject> subject = inner.open();
    return [subject, meddle](const attest_attention& call) { return meddle(call, subject->run_one(call)); };
  });
}
const auto as_it_is = [](const attest_attention&, CallResult result) { return result; };

TEST(Compare, ConformingKernelsDoNotDiffer) {
  const std::pair<const char*, const char*> pairs[] = {{"builtin:fused", "builtin:explicit"},
                                                       {"builtin:fused-tile1", "builtin:fused-tile128"},
                                                       {"builtin:fused-split", "builtin:fused-reversed"},
                                                       {"builtin:fused-exp2", "builtin:fused-scale-sqrt"},
                                                       {"builtin:fused-truncating", "builtin:fused-poor-exp"}};
  for (const auto& [a, b] : pairs)
    for (const char* policy : {"", "f16", "bf16-all"}) {
      CampaignOptions asked = options(120);
      if (*policy) asked.policy = policy_from_text(policy);
      const Summary summary = run(a, b, asked);
      EXPECT_TRUE(summary.findings.empty()) << a << " " << b << " " << policy << "\n" << facts(summary);
      EXPECT_GT(summary.judged, 90u) << a << " " << b << " " << policy;
      EXPECT_EQ(summary.exit(), Exit::held);
    }
}

TEST(Compare, AFaultIsFoundAndItsSideNamed) {
  std::map<std::string, std::string> parents;
  for (const ListedSubject& fault : fault_subjects()) parents[fault.name] = fault.parent;
  for (const std::string fault : {"fault:scale-twice", "fault:causal-off-by-one", "fault:rescale-missing",
                                  "fault:mask-dropped", "fault:unwritten", "fault:gqa-modulo"}) {
    ASSERT_TRUE(parents.contains(fault));
    for (const bool first : {true, false}) {
      const std::string parent = parents[fault];
      const Summary summary = first ? run(fault, parent, options(400)) : run(parent, fault, options(400));
      ASSERT_FALSE(summary.findings.empty()) << fault;
      EXPECT_EQ(summary.exit(), Exit::found);
      for (const Finding& finding : summary.findings) {
        const std::string what = failure_key_of(finding.entry).what;
        EXPECT_TRUE(what.ends_with(first ? "-of-a" : "-of-b")) << fault << ": " << finding.entry.bucket;
        EXPECT_EQ(finding.entry.property, compare_bound_name);
        ASSERT_EQ(finding.entry.evidence->sides.size(), 2u);
        EXPECT_EQ(finding.entry.evidence->sides[0].outside, first);
        EXPECT_EQ(finding.entry.evidence->sides[1].outside, !first);
      }
    }
  }
}

TEST(Compare, WhatIsWrongAlikeIsNoDifference) {
  for (const std::string fault : {"fault:scale-twice", "fault:row-empty-nan", "fault:unwritten"}) {
    const Summary summary = run(fault, fault, options(150));
    EXPECT_TRUE(summary.findings.empty()) << fault << "\n" << facts(summary);
  }
}

TEST(Compare, TheReproducerIsMinimal) {
  const Summary summary = run("builtin:fused", "fault:scale-twice", options(60));
  ASSERT_FALSE(summary.findings.empty());
  const Compared both =
      compared(*ops::all_ops().front(), builtin("builtin:fused"), builtin("fault:scale-twice"), std::nullopt);
  Station station(*both.a, both.b.get(), true);
  const std::size_t law = law_named(compare_bound_name);
  const auto differs = [&](const Problem& problem) {
    const ops::Contract contract = contract_for_problem(both.a->info(), std::nullopt, problem);
    return check(problem, contract, station.bench(), {&law, 1}).reported.has_value();
  };
  for (const Finding& finding : summary.findings) {
    const Problem& minimal = finding.entry.problem.as<Problem>();
    EXPECT_TRUE(finding.entry.minimal);
    EXPECT_LE(minimal.multiply_adds(), 4) << to_text(minimal);
    EXPECT_TRUE(differs(minimal));
    Problem smaller = minimal;
    smaller.scale.reset();
    EXPECT_FALSE(differs(smaller)) << to_text(smaller);
    if (minimal.lse != LseOutput::none) {
      smaller = minimal;
      smaller.lse = LseOutput::none;
      EXPECT_FALSE(differs(smaller)) << to_text(smaller);
    } else {
      smaller = minimal;
      smaller.lk -= 1;
      smaller.edits.clear();
      EXPECT_FALSE(differs(smaller)) << to_text(smaller);
    }
  }
}

TEST(Compare, ThreadsDecideNothing) {
  std::map<int, std::string> results;
  for (const int jobs : {1, 2, 8}) {
    CampaignOptions asked = options(80);
    asked.jobs = jobs;
    asked.laws.compare = LawChoice::Compare::bits;
    results[jobs] = facts(run("builtin:fused", "fault:rescale-missing", asked));
  }
  EXPECT_EQ(results[1], results[2]);
  EXPECT_EQ(results[1], results[8]);
}

TEST(Compare, BitsAreToldApart) {
  CampaignOptions asked = options(150);
  asked.laws.compare = LawChoice::Compare::bits;
  EXPECT_TRUE(run("builtin:fused", "builtin:fused", asked).findings.empty());

  const Summary bits = run("builtin:fused", "builtin:fused-split", asked);
  ASSERT_FALSE(bits.findings.empty());
  for (const Finding& finding : bits.findings) {
    EXPECT_EQ(finding.entry.property, compare_bits_name);
    EXPECT_FALSE(finding.entry.evidence->sides[0].outside || finding.entry.evidence->sides[1].outside);
  }
  EXPECT_EQ(bits.verdicts.at(std::string(compare_bound_name)).of(VerdictKind::fail), 0u);

  // A problem on which the fault stays within both bounds is a finding of its own.
  const Summary both = run("builtin:fused", "fault:scale-twice", asked);
  EXPECT_TRUE(std::ranges::any_of(both.findings,
                                  [](const Finding& finding) { return finding.entry.property == compare_bound_name; }));
}

// The campaign over rows without keys: the promises of both subjects, and whether B gives NaN.
Summary empty_rows(EmptyRow says_a, EmptyRow says_b, bool b_gives_nan) {
  const auto fused = builtin("builtin:fused"), nan = builtin("fault:row-empty-nan");
  const auto says = [](EmptyRow rule) { return [rule](SubjectInfo& info) { info.semantics.empty_row = rule; }; };
  return run(changed(*fused, says(says_a), as_it_is), changed(b_gives_nan ? *nan : *fused, says(says_b), as_it_is),
             options(400));
}

TEST(Compare, WhatContractsLeaveOpenIsAWarning) {
  for (const auto& [a, b] :
       {std::pair(EmptyRow::unspecified, EmptyRow::unspecified), std::pair(EmptyRow::zero, EmptyRow::unspecified),
        std::pair(EmptyRow::zero, EmptyRow::nan)}) {
    const Summary summary = empty_rows(a, b, true);
    EXPECT_TRUE(summary.findings.empty()) << facts(summary);
    EXPECT_EQ(summary.exit(), Exit::held);
    ASSERT_TRUE(summary.warned.contains("a row without keys: A gives 0, B gives NaN")) << facts(summary);
    const Warned& question = summary.warned.at("a row without keys: A gives 0, B gives NaN");
    EXPECT_GT(question.problems, 3u);
    EXPECT_EQ(question.evidence.got, 0);
    EXPECT_TRUE(std::isnan(question.evidence.expected));
    EXPECT_NO_THROW(static_cast<void>(problem_from_text(question.problem)));
  }
  EXPECT_TRUE(empty_rows(EmptyRow::unspecified, EmptyRow::unspecified, false).warned.empty());
}

TEST(Compare, WhatAContractFixesIsADifference) {
  const Summary summary = empty_rows(EmptyRow::unspecified, EmptyRow::zero, true);
  ASSERT_FALSE(summary.findings.empty());
  for (const Finding& finding : summary.findings)
    EXPECT_EQ(failure_key_of(finding.entry).what, "nonfinite-of-b") << finding.entry.bucket;
}

TEST(Compare, ASubjectThatDiesIsAFindingOfItsSide) {
  const auto fused = builtin("builtin:fused");
  const auto dies = [](const attest_attention& call, CallResult result) {
    return call.causal ? CallResult{CallStatus::crash, "the worker was killed by SIGSEGV", 0} : result;
  };
  const Summary of_b = run(builtin("builtin:fused"),
                           changed(
                               *fused, [](auto&) {}, dies),
                           options(60));
  ASSERT_EQ(of_b.findings.size(), 1u) << facts(of_b);
  EXPECT_EQ(of_b.findings[0].entry.seen, VerdictKind::crash);
  EXPECT_EQ(of_b.findings[0].entry.reason, "B: the worker was killed by SIGSEGV");
  EXPECT_LE(of_b.findings[0].entry.problem.as<Problem>().multiply_adds(), 2);
  EXPECT_TRUE(of_b.findings[0].entry.problem.as<Problem>().causal);
  const Summary of_a = run(changed(
                               *fused, [](auto&) {}, dies),
                           builtin("builtin:fused"), options(60));
  ASSERT_EQ(of_a.findings.size(), 1u);
  EXPECT_EQ(of_a.findings[0].entry.reason, "A: the worker was killed by SIGSEGV");
  EXPECT_NE(failure_key_of(of_a.findings[0].entry).what, failure_key_of(of_b.findings[0].entry).what);
}

TEST(Compare, WhatEitherDoesNotTakeIsCountedBySide) {
  const auto fused = builtin("builtin:fused");
  const auto takes_no = [](bool (*which)(const attest_attention&)) {
    return [which](const attest_attention& call, CallResult result) {
      return which(call) ? CallResult{CallStatus::unsupported, "not here", 0} : result;
    };
  };
  const Summary summary = run(changed(
                                  *fused, [](auto&) {}, takes_no([](const auto& c) { return c.causal != 0; })),
                              changed(
                                  *fused, [](auto&) {}, takes_no([](const auto& c) { return c.softcap != 0; })),
                              options(100));
  EXPECT_TRUE(summary.findings.empty());
  EXPECT_GT(summary.skipped.at("unsupported: A: not here"), 5u);
  EXPECT_GT(summary.skipped.at("unsupported: B: not here"), 2u);
}

TEST(Compare, AnErrorOfBothIsNoDifference) {
  const auto fused = builtin("builtin:fused");
  const auto refuses = [](const char* why) {
    return [why](const attest_attention& call, CallResult result) {
      return call.causal ? CallResult{CallStatus::error, why, 0} : result;
    };
  };
  const Summary alike = run(changed(
                                *fused, [](auto&) {}, refuses("no causal")),
                            changed(
                                *fused, [](auto&) {}, refuses("causal is not built")),
                            options(60));
  EXPECT_TRUE(alike.findings.empty()) << facts(alike);
  EXPECT_GT(alike.skipped.at("both subjects report an error"), 5u);
  const Summary one = run(changed(
                              *fused, [](auto&) {}, refuses("no causal")),
                          builtin("builtin:fused"), options(60));
  ASSERT_EQ(one.findings.size(), 1u);
  EXPECT_EQ(one.findings[0].entry.reason, "A: no causal");
}

// Each instance of B is fine until it is asked for a causal problem, which it answers rightly.
TEST(Compare, APoisonedSecondSubjectIsBlamedForTheCallThatPoisons) {
  const auto fused = builtin("builtin:fused");
  auto b = std::make_unique<test::FakeFactory>(fused->info(), [&]() -> test::Answer {
    const std::shared_ptr<Subject> subject = fused->open();
    return [subject, poisoned = false](const attest_attention& call) mutable {
      if (poisoned) return CallResult{CallStatus::error, "the context is lost", 0};
      poisoned = call.causal != 0;
      return subject->run_one(call);
    };
  });
  const Summary summary = run(builtin("builtin:fused"), std::move(b), options(80));
  ASSERT_FALSE(summary.findings.empty());
  for (const Finding& finding : summary.findings) {
    EXPECT_EQ(finding.entry.seen, VerdictKind::poisoned) << finding.entry.bucket;
    EXPECT_TRUE(finding.entry.reason.starts_with("B: the next call is an error")) << finding.entry.reason;
    EXPECT_TRUE(finding.entry.problem.as<Problem>().causal) << to_text(finding.entry.problem);
  }
}

TEST(Compare, ProblemsLieInsideWhatBothTake) {
  const auto fused = builtin("builtin:fused");
  int asked_of_both = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    test::Asked a, b;
    const test::Demands first = test::Demands::draw(2 * seed), second = test::Demands::draw(2 * seed + 1);
    try {
      const Summary summary = run(test::demanding(*fused, first, a), test::demanding(*fused, second, b), options(12));
      EXPECT_TRUE(summary.findings.empty()) << facts(summary);
      ++asked_of_both;
    } catch (const Error& nothing_in_common) {
      EXPECT_EQ(nothing_in_common.exit(), Exit::usage);
    }
    EXPECT_EQ(a.outside, 0) << a.first_outside;
    EXPECT_EQ(b.outside, 0) << b.first_outside;
  }
  EXPECT_GT(asked_of_both, 15);
}

TEST(Compare, WhatIsDrawnIsWhatBothSaySoFarAsBothHaveTheForms) {
  const auto saying = [](const std::string& drawn, std::vector<FormOffer> forms) {
    SubjectInfo info = builtin("builtin:fused")->info();
    info.supports.drawn = drawn;
    info.supports.forms = std::move(forms);
    return std::make_unique<test::FakeFactory>(info, [] { return test::Answer(); });
  };
  const FormOffer mask{"mask", {"full", "1d"}, {{"1d", {}, "form.past==none"}}},
      past{"past", {"none", "half"}, {{"half", {}, "d==dv"}}}, other{"past", {"none", "all"}};
  const auto common = [&](const std::string& a, const std::string& b, const FormOffer& past_of_b) {
    return compared(*ops::all_ops().front(), saying(a, {mask, past}), saying(b, {mask, past_of_b}), std::nullopt)
        .a->info()
        .supports;
  };
  EXPECT_EQ(common("lk>1", "lk>1", past).drawn, "lk>1");
  EXPECT_EQ(common("lk>1", "", past).drawn, "lk>1");
  EXPECT_EQ(common("lk>1", "lq>1 || d>1", past).drawn, "(lk>1) && (lq>1 || d>1)");
  EXPECT_EQ(common("form.past==none && lk>1", "lq>1", other).drawn, "lq>1");
  EXPECT_EQ(common("", "", past).forms, (std::vector<FormOffer>{mask, past}));
  EXPECT_EQ(common("", "", other).forms, (std::vector<FormOffer>{{"mask", {"full", "1d"}}}));
}

TEST(Compare, SubjectsWithoutADtypeInCommonAreRefused) {
  const auto fused = builtin("builtin:fused");
  const auto only = [](Format dtype) {
    return [dtype](SubjectInfo& info) {
      info.dtypes = {dtype};
      info.policies = {policy_from_text(std::string(name(dtype)))};
      info.arithmetic.clear();
    };
  };
  try {
    compared(*ops::all_ops().front(), changed(*fused, only(Format::f16), as_it_is),
             changed(*fused, only(Format::f32), as_it_is), std::nullopt);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    EXPECT_NE(std::string(error.what()).find("no dtype in common"), std::string::npos) << error.what();
  }
  try {
    compared(*ops::all_ops().front(), builtin("builtin:fused"), changed(*fused, only(Format::f32), as_it_is),
             policy_from_text("f16"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("do not both offer"), std::string::npos) << error.what();
  }
}

TEST(Compare, EntriesHoldBothSubjectsAndReplay) {
  const test::TemporaryFolder folder;
  CampaignOptions asked = options(60);
  asked.corpus = folder.path();
  const Summary summary = run("builtin:fused", "fault:scale-twice", asked);
  ASSERT_FALSE(summary.findings.empty());
  const Entry entry = read_entry(summary.findings[0].reproducer);
  ASSERT_TRUE(entry.subject_b);
  EXPECT_EQ(entry.subject, "builtin:fused");
  EXPECT_EQ(entry.subject_b->subject, "fault:scale-twice");
  EXPECT_EQ(entry.evidence->sides.size(), 2u);
  EXPECT_EQ(to_file_text(entry), to_file_text(entry_from_file_text(to_file_text(entry), "again.json")));

  const auto first = [](const Entry& e) { return builtin(e.subject); };
  const auto second = [](const Entry& e) { return builtin(e.subject_b->subject); };
  const auto clean = [](const Entry&) { return builtin("builtin:fused-split"); };
  const ReplayReport report = replay({folder.path()}, first, nullptr, {}, false, second);
  EXPECT_EQ(report.as_expected, report.entries);
  const ReplayReport mended = replay({folder.path()}, first, nullptr, {}, false, clean);
  EXPECT_EQ(mended.mended, mended.entries);
  const ReplayReport alone = replay({folder.path()}, first, nullptr, {});
  EXPECT_EQ(alone.not_run, alone.entries);

  Entry without = entry;
  without.subject_b.reset();
  EXPECT_THROW(entry_from_file_text(to_file_text(without), "without.json"), Error);
}

TEST(Compare, AFolderGoesOnWithTheSamePairAlone) {
  const test::TemporaryFolder folder;
  CampaignOptions asked = options(30);
  asked.folder = folder.path() / "campaign";
  run("builtin:fused", "fault:scale-twice", asked);
  asked.cases = 60;
  const Summary went_on = run("builtin:fused", "fault:scale-twice", asked);
  EXPECT_EQ(went_on.earlier_cases, 30u);
  CampaignOptions at_once = options(60);
  at_once.subject_b->subject = "fault:scale-twice";
  EXPECT_EQ(went_on.failing_cases, run("builtin:fused", "fault:scale-twice", at_once).failing_cases);
  EXPECT_THROW(run("builtin:fused", "fault:scale-missing", asked), Error);
  asked.laws.compare = LawChoice::Compare::bits;
  EXPECT_THROW(run("builtin:fused", "fault:scale-twice", asked), Error);
}

}  // namespace
}  // namespace attest::engine
