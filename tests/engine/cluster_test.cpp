#include "engine/cluster.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "core/rng.hpp"
#include "engine/campaign.hpp"
#include "engine/failure.hpp"
#include "engine/key.hpp"
#include "fake_subject.hpp"
#include "generators/draw.hpp"
#include "properties/property.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using attest::Domain;
using attest::Problem;
using attest::Supports;

Summary campaign(const SubjectFactory& subject, const std::string& name, std::uint64_t cases = 400, bool avoid = true,
                 std::uint64_t seed = 2) {
  CampaignOptions options;
  options.subject = name;
  options.cases = cases;
  options.seed = seed;
  options.jobs = 2;
  options.avoid = avoid;
  const auto peer = builtin_subject("builtin:explicit", {});
  Observer silent;
  return run_campaign(subject, peer.get(), options, silent);
}

const Defect* defect_with(const Summary& summary, const std::string& predicate) {
  for (const Defect& defect : summary.defects)
    if (to_text(defect.predicate) == predicate) return &defect;
  return nullptr;
}

TEST(Cluster, TwoDefectsOfOneMessageStayApart) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto subject = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    const bool long_keys = call.k.shape[2] > 64, capped = call.softcap > 0;
    return long_keys || capped ? CallResult{CallStatus::error, "no such plan", 0} : result;
  });
  const Summary summary = campaign(*subject, "./two.so");
  std::string found;
  for (const Defect& defect : summary.defects)
    found += "\n  " + to_text(defect.predicate) + ", by " + summary.findings[defect.findings.front()].entry.bucket;
  EXPECT_GE(summary.defects.size(), 2u) << found;
  EXPECT_LE(summary.defects.size(), 3u) << found;
  for (const char* predicate : {"lk>=65", "softcap>0"})
    if (const Defect* defect = defect_with(summary, predicate)) {
      EXPECT_EQ(defect->counts.failing, defect->counts.asked) << predicate;
    } else {
      ADD_FAILURE() << predicate << " was not learned, but" << found;
    }
}

// A few refusals in the words of a frequent one tell no defect of their own; in other words they do.
TEST(Cluster, RareFailuresOfOneMessageAreOneDefect) {
  const auto fused = builtin_subject("builtin:fused", {});
  for (const bool same : {true, false}) {
    const auto subject = test::meddled(*fused, [same](const attest_attention& call, CallResult result) {
      if (call.causal) return CallResult{CallStatus::error, "no such plan", 0};
      const bool rare = call.threads == 4 && call.softcap > 0;
      return rare ? CallResult{CallStatus::error, same ? "no such plan" : "no such place", 0} : result;
    });
    const Summary summary = campaign(*subject, "./rare.so");
    std::size_t rare = 0;
    for (const Finding& finding : summary.findings) rare += finding.entry.problem.as<Problem>().causal ? 0 : 1;
    EXPECT_GE(rare, 1u);
    EXPECT_EQ(summary.defects.size(), same ? 1u : 2u);
  }
}

// A failure that happened twice lies where the others do, which is chance; but so does what it was shrunk to, which is not.
TEST(Cluster, AMinimalReproducerIsAWitnessToo) {
  const auto fault = builtin_subject("fault:rescale-sum-only", {});
  const Summary summary = campaign(*fault, "fault:rescale-sum-only", 700, true, 1);
  EXPECT_GE(summary.failing_cases, 10u);
  EXPECT_LE(summary.defects.size(), 2u);
}

// One cause, told in one message, with two conditions each of which lets it show.
TEST(Cluster, OneMessageUnderASharedConditionIsOneDefect) {
  const auto fused = builtin_subject("builtin:fused", {});
  for (const bool shared : {true, false}) {
    const auto subject = test::meddled(*fused, [shared](const attest_attention& call, CallResult result) {
      const bool rare = call.threads == 4, masked = call.keep.data != nullptr, capped = call.softcap > 0;
      const bool refused = shared ? rare && (masked || capped) : (rare && masked) || (call.causal && capped);
      return refused ? CallResult{CallStatus::error, "no such plan", 0} : result;
    });
    const Summary summary = campaign(*subject, "./shared.so", 3000);
    EXPECT_EQ(summary.defects.size(), shared ? 1u : 2u);
  }
}

// What is refused for one thing is refused in other words where more is set; a refusal for something else is not.
TEST(Cluster, ARefusalInOtherWordsWhereMoreIsSetIsOneDefect) {
  const auto fused = builtin_subject("builtin:fused", {});
  for (const bool causal_too : {true, false}) {
    const auto subject = test::meddled(*fused, [causal_too](const attest_attention& call, CallResult result) {
      const bool capped = call.softcap > 0;
      if (capped && (call.causal || !causal_too)) return CallResult{CallStatus::error, "no place for a cap", 0};
      return call.causal ? CallResult{CallStatus::error, "no such plan", 0} : result;
    });
    const Summary summary = campaign(*subject, "./words.so");
    EXPECT_EQ(summary.defects.size(), causal_too ? 1u : 2u);
  }
}

// Of the failures of one law most are never shrunk, and nobody says whose they are. Neither defect shows in all of its problems,
// and a single failure of another law lies where both may.
TEST(Cluster, AFrequentDefectHidesNoRareOne) {
  const Supports everything;
  const FailureKey wrong{"policy-bound", VerdictKind::fail, "finite"};
  const std::string minimal[] = {"b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 causal=1",
                                 "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 scale=0",
                                 "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=2 causal=1 scale=0"};
  std::vector<Finding> findings;
  for (const std::string& text : minimal) {
    Finding finding;
    finding.entry.problem = problem_from_text(text);
    finding.entry.property = findings.size() < 2 ? wrong.property : "value-linearity";
    finding.entry.evidence.emplace().wrong = Wrong::finite;
    finding.entry.bucket = finding.entry.property + ":kernel:" + text;
    findings.push_back(finding);
  }
  const auto law = std::ranges::find(properties::properties(), wrong.property, &properties::Property::name);
  const Domain domain(everything, {Format::f32});
  CaseTable table(everything);
  std::map<std::string, std::string> buckets;
  std::size_t of_whom[2] = {};
  for (std::uint64_t n = 0; n < 4000; ++n) {
    const Problem p = draw_problem(domain, 1, n, 1);
    const bool fails[] = {p.causal && p.lq < p.lk && mix(n) % 4 != 0, p.scale == 0 && p.lk > 1 && mix(n) % 5 < 2};
    CaseRow row{n, 0, row_of(p, everything), {}, {}, "signature " + std::to_string(n)};
    if (fails[0] || fails[1]) {
      row.failures.push_back(wrong);
      const std::size_t whose = fails[0] ? 0 : 1;
      if (++of_whom[whose] <= 5) buckets[row.signature] = findings[whose].entry.bucket;
    } else {
      row.held.set(static_cast<std::size_t>(law - properties::properties().begin()));
    }
    table.add(std::move(row));
  }
  ASSERT_GT(of_whom[0], 2 * of_whom[1]);
  const std::vector<Defect> defects = cluster(findings, {table, buckets, {}});
  std::string found;
  for (const Defect& defect : defects) found += "\n  " + to_text(defect.predicate);
  ASSERT_EQ(defects.size(), 2u) << found;
  EXPECT_EQ(defects[0].findings.front(), 0u);
  EXPECT_EQ(defects[1].findings.front(), 1u);
  EXPECT_EQ(to_text(defects[0].predicate), "causal && lq<lk") << found;
  EXPECT_NE(to_text(defects[1].predicate).find("scale==0"), std::string::npos) << found;
}

// A law asks a problem without a mask for one with a mask, which is refused: the condition is of that call, not of the problem.
TEST(Cluster, AnErrorIsOfTheCallThatWasNotDone) {
  const Supports everything;
  const std::string words = "no place for a mask";
  Finding finding;
  finding.entry.problem = problem_from_text("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 causal=1");
  finding.entry.property = "score-shift";
  finding.entry.seen = VerdictKind::error;
  finding.entry.reason = words;
  finding.entry.minimal = true;
  finding.entry.bucket = "score-shift:kernel:causal";
  const auto call_of = [](Problem p) {
    p.bias = Bias::normal;
    return p;
  };
  const Domain domain(everything, {Format::f32});
  CaseTable table(everything);
  for (std::uint64_t n = 0; n < 3000; ++n) {
    const Problem p = draw_problem(domain, 1, n, 1);
    CaseRow row{n, 0, row_of(p, everything), {}, {}, "signature " + std::to_string(n)};
    if (p.causal && p.bias != Bias::none) {
      row.failures.push_back({"guards", VerdictKind::error, message_class(words)});
    } else {
      row.held.set(law_named("guards"));
      if (p.causal && mix(n) % 4 == 0) {
        row.calls[0] = row_of_call(call_of(p), p, everything);
        row.failures.push_back({"score-shift", VerdictKind::error, message_class(words)});
      }
    }
    table.add(row_from_json(nlohmann::json::parse(to_json(row).dump())).calls == row.calls ? row : CaseRow());
  }
  const auto probe = [&](const Entry& at, const std::string& property) {
    EXPECT_EQ(property, "score-shift");
    return Probed{failure_key_of(at), {}, call_of(at.problem.as<Problem>())};
  };
  const std::vector<Defect> defects = cluster({finding}, {table, {}, probe});
  ASSERT_EQ(defects.size(), 1u);
  const Separation& counts = defects[0].counts;
  EXPECT_GT(counts.failing, 100u);
  EXPECT_EQ(counts.failing, counts.asked) << to_text(defects[0].predicate);
  EXPECT_EQ(counts.failing_elsewhere, 0u) << to_text(defects[0].predicate);
  EXPECT_FALSE(defects[0].predicate.holds(finding.entry.problem, everything));
}

// One failure tells nothing by counts; what was shrunk from it does, and what keeps from passing with other numbers says which of
// its traits it is.
TEST(Cluster, AMinimalReproducerOfFewFailuresSaysWhatItNeeds) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto subject = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    const bool rare = call.causal && call.softcap > 0 && call.threads == 3;
    return rare ? CallResult{CallStatus::error, "no such plan", 0} : result;
  });
  const Summary summary = campaign(*subject, "./few.so", 400);
  ASSERT_EQ(summary.defects.size(), 1u);
  const Defect& defect = summary.defects[0];
  EXPECT_LT(defect.failures, 5u);
  std::set<std::string> said;
  for (const Atom& atom : defect.predicate.atoms) said.insert(std::string(traits()[atom.trait].name));
  EXPECT_EQ(said, (std::set<std::string>{"causal", "softcap", "threads"})) << to_text(defect.predicate);
  EXPECT_EQ(defect.counts.failing, defect.counts.asked);
}

// What a law's other call dies of is told of the base call too where that may die; only the call says that it is the same.
TEST(Cluster, ADeathInAnotherCallOfALawIsThatOfItsCall) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto subject = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    return call.keep.data && call.q.shape[2] > 1 ? CallResult{CallStatus::crash, "killed by SIGSEGV", 0} : result;
  });
  const Summary summary = campaign(*subject, "./deadly.so", 1500);
  std::string found;
  bool elsewhere = false;
  for (const Finding& finding : summary.findings) {
    found += "\n  " + finding.entry.bucket;
    elsewhere = elsewhere || finding.entry.problem.as<Problem>().keep == Keep::none;
  }
  EXPECT_TRUE(elsewhere) << "no law of other calls found it:" << found;
  EXPECT_EQ(summary.defects.size(), 1u) << found;
}

// Whatever law's calls follow each other so that it shows.
TEST(Cluster, WhatACallLeavesBehindIsOneDefect) {
  const auto fault = builtin_subject("fault:state-kept", {});
  const Summary summary = campaign(*fault, "fault:state-kept", 6000, true, 1);
  std::string found;
  for (const Defect& defect : summary.defects) found += "\n  " + summary.findings[defect.findings.front()].entry.bucket;
  EXPECT_GT(summary.findings.size(), 20u);
  EXPECT_LE(summary.defects.size(), 2u) << found;
}

// Drift is told of a campaign; a defect whose predicate its worst problem lies in explains it, another does not.
TEST(Cluster, DriftBelongsToTheDefectThatItsWorstProblemLiesIn) {
  const Supports everything;
  const FailureKey wrong{"policy-bound", VerdictKind::fail, "finite"};
  Finding bound, drift;
  bound.entry.problem = problem_from_text("b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 causal=1");
  bound.entry.property = wrong.property;
  bound.entry.evidence.emplace().wrong = Wrong::finite;
  bound.entry.bucket = "policy-bound:kernel:causal";
  drift.entry.property = drift_name;
  drift.entry.evidence.emplace().wrong = Wrong::finite;
  drift.entry.bucket = "drift:kernel:f32";
  const auto law = std::ranges::find(properties::properties(), wrong.property, &properties::Property::name);
  const Domain domain(everything, {Format::f32});
  CaseTable table(everything);
  std::map<std::string, std::string> buckets;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    const Problem p = draw_problem(domain, 1, n, 1);
    CaseRow row{n, 0, row_of(p, everything), {}, {}, "signature " + std::to_string(n)};
    if (p.causal)
      row.failures.push_back(wrong);
    else
      row.held.set(static_cast<std::size_t>(law - properties::properties().begin()));
    table.add(std::move(row));
  }
  for (const bool inside : {true, false}) {
    drift.entry.problem =
        problem_from_text(std::string("b=1 hq=1 hkv=1 lq=48 lk=64 d=8 dv=8") + (inside ? " causal=1" : ""));
    const std::vector<Defect> defects = cluster({drift, bound}, {table, buckets});
    EXPECT_EQ(defects.size(), inside ? 1u : 2u);
    EXPECT_EQ(to_text(defects[0].predicate), "causal");
  }
}

TEST(Cluster, OneDefectUnderManyLawsIsOneEntry) {
  for (const char* name : {"fault:scale-missing", "fault:batch-leak", "fault:tail-dropped", "fault:row-empty-nan",
                           "fault:max-init-zero", "fault:bias-broadcast"}) {
    const auto fault = builtin_subject(name, {});
    const Summary summary = campaign(*fault, name, 1500);
    ASSERT_FALSE(summary.findings.empty()) << name;
    EXPECT_GT(summary.findings.size(), summary.defects.size()) << name;
    EXPECT_LE(summary.defects.size(), 2u) << name;
    std::size_t belonging = 0;
    std::uint64_t failures = 0;
    for (const Defect& defect : summary.defects) {
      belonging += defect.findings.size();
      failures += defect.failures;
      const auto problem = [&](std::size_t i) -> const ops::Problem& { return summary.findings[i].entry.problem; };
      const auto shows = [&](std::size_t i) { return defect.predicate.holds(problem(i), fault->info().supports); };
      const std::size_t shown = defect.findings.front();
      for (const std::size_t i : defect.findings) {
        EXPECT_TRUE(shows(shown) || !shows(i)) << name;
        if (shows(i) != shows(shown)) continue;
        EXPECT_LE(work_of(problem(shown)), work_of(problem(i))) << name;
      }
    }
    EXPECT_EQ(belonging, summary.findings.size());
    EXPECT_EQ(failures, summary.failing_cases);
  }
}

}  // namespace
}  // namespace attest::engine
