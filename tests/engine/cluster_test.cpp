#include "engine/cluster.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "core/rng.hpp"
#include "engine/campaign.hpp"
#include "engine/failure.hpp"
#include "engine/key.hpp"
#include "engine/shrink/candidates.hpp"
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

// A failure that happened twice lies where the others do, which is chance; but so does what it was shrunk to, which is
// not.
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

// A problem that is refused for one thing is refused in other words where more is set; a refusal for something else is
// not.
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

// A call of one query is refused for its plan, a call of more for its cap. That both need `causal` is not enough, for a
// call of two queries is done with it.
TEST(Cluster, ARefusalIsNotForWhatANeighbourIsDoneWith) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto subject = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    if (call.causal && call.q.shape[2] == 1) return CallResult{CallStatus::error, "no such plan", 0};
    return call.causal && call.softcap > 0 ? CallResult{CallStatus::error, "no place for a cap", 0} : result;
  });
  EXPECT_EQ(campaign(*subject, "./neighbour.so").defects.size(), 2u);
}

// A law that asks in another form may be refused for that form, of which its problem says nothing.
TEST(Cluster, ARefusalOfAnotherFormIsOfThatForm) {
  const Supports everything;
  const CaseTable table(everything);
  for (const bool of_forms : {true, false}) {
    std::vector<Finding> findings;
    for (const auto& [text, words] : {std::pair("causal=1 keep=open dtype=f64", "no place for a double"),
                                      std::pair("keep=open", "a mask of two dimensions")}) {
      Finding finding;
      finding.entry.problem = problem_from_text(std::string("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 ") + text);
      finding.entry.property = of_forms ? "other-form" : "pad-keys";
      finding.entry.seen = VerdictKind::error;
      finding.entry.reason = words;
      finding.entry.minimal = true;
      finding.entry.bucket = finding.entry.property + ":kernel:" + text;
      findings.push_back(finding);
    }
    EXPECT_EQ(cluster(findings, {table, {}, {}}).size(), of_forms ? 2u : 1u);
  }
}

// Most failures of one law are never shrunk, and nobody says whose they are. Neither defect shows in all of its
// problems, and a single failure of another law lies where both may.
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

// A law that fails for a reason of its own fails on the reproducer of another defect, too, where that reason holds
// there.
TEST(Cluster, ALawThatFailsElsewhereIsOfNoDefectThatItIsAskedOf) {
  const Supports everything;
  std::vector<Finding> findings(2);
  const char* const texts[] = {"b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 causal=1 softcap=0x1p+1",
                               "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1"};
  const FailureKey keys[] = {{"policy-bound", VerdictKind::fail, "nonfinite"},
                             {"nonfinite-attended", VerdictKind::fail, "finite"}};
  for (const std::size_t n : {0u, 1u}) {
    Entry& entry = findings[n].entry;
    entry.problem = problem_from_text(texts[n]);
    entry.property = keys[n].property;
    entry.evidence.emplace().wrong = n == 0 ? Wrong::nan : Wrong::finite;
    entry.minimal = true;
    entry.bucket = keys[n].property + ":kernel:" + texts[n];
    findings[n].failures = 100;
  }
  const Domain domain(everything, {Format::f32});
  CaseTable table(everything);
  std::map<std::string, std::string> buckets;
  for (std::uint64_t n = 0; n < 6000; ++n) {
    const Problem p = draw_problem(domain, 1, n, 1);
    const bool asked[] = {true, mix(n) % 4 == 0};
    const bool few_keys = p.lk <= 15;
    const bool fails[] = {p.causal && p.softcap > 0 && mix(n + 2) % 4 != 0,
                          asked[1] && few_keys && mix(n + 1) % 4 != 0};
    CaseRow row{n, 0, row_of(p, everything), {}, {}, "signature " + std::to_string(n)};
    for (const std::size_t k : {0u, 1u}) {
      if (fails[k]) {
        row.failures.push_back(keys[k]);
        buckets.try_emplace(row.signature, findings[k].entry.bucket);
      } else if (asked[k]) {
        row.held.set(law_named(keys[k].property));
      }
    }
    table.add(std::move(row));
  }
  const auto probe = [&](const Entry&, const std::string& property) {
    const bool attended = property == keys[1].property;
    return Probed{attended ? keys[1] : keys[0], {}, {}};
  };
  std::string found;
  const std::vector<Defect> defects = cluster(findings, {table, buckets, probe});
  for (const Defect& defect : defects) found += "\n  " + to_text(defect.predicate);
  EXPECT_EQ(defects.size(), 2u) << found;
}

// A law asks a problem without a mask for one with a mask, which is refused: the condition is of that call, not of the
// problem.
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

// One failure tells nothing by counts; the problem shrunk from it does, and its neighbours that pass with other numbers
// say which of its traits it is.
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

// Reproducers of wrong numbers, or of deaths, each with the neighbours that pass, and the problems of a campaign in
// which so many of each failed.
struct Told {
  using Fails = std::function<bool(const Problem&)>;
  explicit Told(std::uint64_t cases, const attest::Supports& supports = {}) : everything(supports) {
    const Domain domain(supports, {Format::f32, Format::f64});
    for (std::uint64_t n = 0; n < cases; ++n) problems.push_back(draw_problem(domain, 1, n, 1));
  }
  void add(const std::string& text, const Fails& fails, std::size_t most, const Fails& where) {
    Finding finding;
    Entry& entry = finding.entry;
    entry.problem = problem_from_text(text);
    ASSERT_TRUE(fails(entry.problem.as<Problem>())) << text;
    entry.property = key.property;
    entry.seen = seen.value_or(key.kind);
    if (key.kind == VerdictKind::fail) entry.evidence.emplace().wrong = Wrong::finite;
    entry.reason = key.kind == VerdictKind::crash ? "killed by SIGSEGV" : "";
    entry.minimal = true;
    entry.bucket = entry.property + ":kernel:" + text;
    for (const Candidate& beside : neighbours(entry.problem, {everything, {Format::f32, Format::f64}, {}}))
      if (!fails(beside.problem.as<Problem>())) entry.neighbours.push_back(beside.change);
    std::size_t failed = 0;
    for (std::size_t n = 0; n < problems.size() && failed < most; ++n)
      if (!whose.contains(n) && fails(problems[n]) && where(problems[n]) && ++failed > 0) whose[n] = findings.size();
    ASSERT_EQ(failed, most) << text;
    finding.failures = failed;
    finding.case_number = findings.size();
    findings.push_back(finding);
  }
  std::vector<Defect> defects() const {
    CaseTable table(everything);
    std::map<std::string, std::string> buckets;
    for (std::size_t n = 0; n < problems.size(); ++n) {
      CaseRow row{n, 0, row_of(problems[n], everything), {}, {}, "signature " + std::to_string(n)};
      if (const auto of = whose.find(n); of != whose.end()) {
        row.failures.push_back(key);
        if (!nobodys.contains(n)) buckets[row.signature] = findings[of->second].entry.bucket;
      } else {
        row.held.set(law_named("policy-bound"));
      }
      table.add(std::move(row));
    }
    return cluster(findings, {table, buckets, {}});
  }

  FailureKey key{"policy-bound", VerdictKind::fail, "finite"};
  std::optional<VerdictKind> seen;  // the kind of the failures that are added next, if it is not that of `key`
  const engine::Supports everything;
  std::vector<Problem> problems;
  std::vector<Finding> findings;
  std::map<std::size_t, std::size_t> whose;
  std::set<std::size_t> nobodys;  // that failed and were not shrunk
};

// One failure or two of each kind of mask tell nothing by counts; that all of them need a mask of one row beside a
// diagonal does.
TEST(Cluster, FewFailuresThatNeedTheSameAreOneDefect) {
  Told told(3000);
  constexpr Index queries = 4;
  const auto shared_row = [](const Problem& p) {
    const bool bias = p.bias != Bias::none && (p.bias_axes & queries) == 0;
    const bool keep = p.keep != Keep::none && (p.keep_axes & queries) == 0;
    return p.causal && p.lq > 1 && (bias || keep || p.lengths != Lengths::none);
  };
  const auto capped = [](const Problem& p) { return p.softcap > 0 && p.threads == 3; };
  const std::string small = "b=1 hq=1 hkv=1 lq=2 lk=2 d=1 dv=1 ";
  told.add(small + "causal=1 bias=zero bias_axes=8", shared_row, 2,
           [](const Problem& p) { return p.bias != Bias::none; });
  told.add(small + "causal=1 keep=open keep_axes=8", shared_row, 1,
           [](const Problem& p) { return p.keep != Keep::none; });
  told.add(small + "causal=1 lengths=full", shared_row, 2, [](const Problem& p) { return p.lengths != Lengths::none; });
  told.add("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 softcap=1 threads=3", capped, 2, [](const Problem&) { return true; });
  const std::vector<Defect> defects = told.defects();
  std::string found;
  for (const Defect& defect : defects) found += "\n  " + to_text(defect.predicate);
  ASSERT_EQ(defects.size(), 2u) << found;
  EXPECT_EQ(defects[0].findings.size(), 3u) << found;
  EXPECT_NE(to_text(defects[0].predicate).find("one_mask_row"), std::string::npos) << found;
  EXPECT_EQ(defects[1].findings, (std::vector<std::size_t>{3})) << found;
}

// A kernel that dies nearly always under two rare options, and once under one of them, has one defect; a death under a
// common option may be of another.
TEST(Cluster, ARareDeathUnderAPartOfACondition) {
  const auto often = [](const Problem& p) { return p.softcap > 0 && p.threads == 3; };
  const std::string small = "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 ";
  for (const bool nearby : {true, false}) {
    Told told(3000);
    told.key = {"guards", VerdictKind::crash, "killed-by-sigsegv"};
    told.add(small + "softcap=1 threads=3", often, 8, [](const Problem&) { return true; });
    const auto seldom = [&](const Problem& p) { return !often(p) && (nearby ? p.softcap > 0 : p.lk >= 2); };
    told.add("b=1 hq=1 hkv=1 lq=1 lk=65 d=2 dv=2 " + std::string(nearby ? "softcap=1" : ""), seldom, 1,
             [](const Problem& p) { return p.lk >= 65; });
    const std::vector<Defect> defects = told.defects();
    std::string found;
    for (const Defect& defect : defects) found += "\n  " + to_text(defect.predicate);
    EXPECT_EQ(defects.size(), nearby ? 1u : 2u) << found;
  }
}

// The condition of the deaths is weakened: a kernel dies seldom under another label, or returns the memory's content.
TEST(Cluster, ARareDeathOrAnswerUnderAWeakerCondition) {
  const auto often = [](const Problem& p) { return p.bias == Bias::padding && p.causal; };
  for (const auto& [dies, differs] : {std::pair(true, true), {true, false}, {false, true}})
    for (const bool nearby : {true, false}) {
      Told told(3000);
      if (dies) told.key = {"guards", VerdictKind::crash, "killed-by-sigsegv"};
      told.add("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 causal=1 bias=padding", often, 8,
               [](const Problem&) { return true; });
      const auto seldom = [&](const Problem& p) {
        return !often(p) && (nearby ? p.causal && p.bias == Bias::alibi : p.lk >= 2);
      };
      if (differs) told.seen = VerdictKind::flaky;
      told.add("b=1 hq=1 hkv=1 lq=1 lk=65 d=2 dv=2 " + std::string(nearby ? "causal=1 bias=alibi" : ""), seldom, 2,
               [](const Problem& p) { return p.lk >= 65; });
      const std::vector<Defect> defects = told.defects();
      std::string found;
      for (const Defect& defect : defects) found += "\n  " + to_text(defect.predicate);
      EXPECT_EQ(defects.size(), nearby ? 1u : 2u) << dies << differs << found;
    }
}

// A few failures all lie where those of another do, but what they were shrunk to does not.
TEST(Cluster, AMinimalReproducerThatLiesElsewhereIsOfAnotherDefect) {
  Told told(3000);
  const auto wide = [](const Problem& p) { return p.d >= 64; };
  const auto capped = [](const Problem& p) { return p.softcap > 0; };
  told.add("b=1 hq=1 hkv=1 lq=1 lk=1 d=64 dv=1", wide, 12, [](const Problem& p) { return p.softcap == 0; });
  told.add("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 softcap=1", capped, 3, wide);
  EXPECT_EQ(told.defects().size(), 2u);
}

// Failures that nobody shrank have nothing in common with those that were shrunk; the latter have.
TEST(Cluster, FailuresThatNobodyShrankHideNoCondition) {
  Told told(3000);
  const auto masked = [](const Problem& p) { return p.causal && p.keep != Keep::none; };
  told.add("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 causal=1 keep=open", masked, 6, [](const Problem&) { return true; });
  for (std::size_t n = 7; n < told.problems.size(); n += 100)
    if (!masked(told.problems[n]) && told.nobodys.insert(n).second) told.whose[n] = 0;
  const std::vector<Defect> defects = told.defects();
  ASSERT_EQ(defects.size(), 1u);
  const std::string where = to_text(defects[0].predicate);
  EXPECT_NE(where.find("causal"), std::string::npos) << where;
  EXPECT_NE(where.find("keep"), std::string::npos) << where;
}

// Most failures of one law that nobody shrank are of another defect, whose condition holds of the failures in a form
// alone, too. A single failure that passes without that form is of the defect that does.
TEST(Cluster, WhatFailsInAFormAloneIsADefectOfItsOwn) {
  attest::Supports supports;
  supports.forms = {{"past", {"needed", "half"}}};
  know_forms(supports.forms);
  Told told(4000, supports);
  const auto half = [](const Problem& p) {
    return std::ranges::find(p.forms, FormChoice{"past", "half"}) != p.forms.end();
  };
  const auto corner = [](const Problem& p) { return p.causal && p.lq < p.lk && p.align == Align::top_left; };
  const auto buffer = [&](const Problem& p) { return half(p) && p.lk > 1; };
  const auto all = [](const Problem&) { return true; };
  const std::string small = "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 ";
  told.add(small + "causal=1", corner, 200, [&](const Problem& p) { return !half(p); });
  for (const auto& [n, of] : told.whose)
    if (n % 8 != 0) told.nobodys.insert(n);
  told.add(small + "form.past=half", buffer, 6, all);
  told.add(
      small + "softcap=1 form.past=half", [&](const Problem& p) { return buffer(p) && p.softcap > 0; }, 1, all);
  const std::vector<Defect> defects = told.defects();
  std::string found;
  for (const Defect& defect : defects) found += "\n  " + to_text(defect.predicate);
  ASSERT_EQ(defects.size(), 2u) << found;
  EXPECT_NE(to_text(defects[0].predicate).find("causal"), std::string::npos) << found;
  EXPECT_NE(to_text(defects[1].predicate).find("form.past==half"), std::string::npos) << found;
  EXPECT_EQ(defects[1].findings.size(), 2u) << found;
}

// Two failures that need a form lie all where others do: by chance, unless that place is rare.
TEST(Cluster, WhatFailsInAFormAtARarePlaceIsOfThatPlace) {
  attest::Supports supports;
  supports.forms = {{"past", {"needed", "half"}}};
  know_forms(supports.forms);
  for (const bool rare : {true, false}) {
    Told told(6000, supports);
    const auto half = [](const Problem& p) {
      return std::ranges::find(p.forms, FormChoice{"past", "half"}) != p.forms.end();
    };
    const auto place = [rare](const Problem& p) { return rare ? p.softcap > 0 && p.threads == 3 : p.causal; };
    const std::string small =
        "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 " + std::string(rare ? "softcap=1 threads=3" : "causal=1");
    told.add(small, place, 10, [&](const Problem& p) { return !half(p); });
    told.findings.back().entry.neighbours.clear();
    told.add(
        small + " form.past=half", [&](const Problem& p) { return place(p) && half(p); }, 1,
        [](const Problem&) { return true; });
    std::string found;
    const std::vector<Defect> defects = told.defects();
    for (const Defect& defect : defects) found += "\n  " + to_text(defect.predicate);
    EXPECT_EQ(defects.size(), rare ? 1u : 2u) << found;
  }
}

TEST(Cluster, AReproducerTakesThePlaceOfTheCaseItIsFrom) {
  Finding seen;
  seen.case_number = 7;
  seen.failures = 0;
  seen.entry.bucket = "as it was seen";
  EXPECT_TRUE(seen.is_replaced_by(7, "shrunk"));
  EXPECT_FALSE(seen.is_replaced_by(8, "shrunk"));
  EXPECT_FALSE(seen.is_replaced_by(7, "as it was seen"));
  seen.failures = 1;
  EXPECT_FALSE(seen.is_replaced_by(7, "shrunk")) << "it stands for another case too";
}

// A format is an option like any other that a single failure may need.
TEST(Cluster, ASingleFailureMayNeedItsFormat) {
  Told told(1500);
  const auto fails = [](const Problem& p) { return p.dtype == Format::f64 && p.softcap > 0; };
  told.add("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f64 softcap=1", fails, 1, [](const Problem&) { return true; });
  const std::vector<Defect> defects = told.defects();
  ASSERT_EQ(defects.size(), 1u);
  const std::string where = to_text(defects[0].predicate);
  EXPECT_NE(where.find("dtype==f64"), std::string::npos) << where;
  EXPECT_NE(where.find("softcap"), std::string::npos) << where;
}

// A death in another call of a law is told of the base call, too, where that may die; only the call says that it is the
// same.
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
    for (const Avoided& avoided : summary.avoided) EXPECT_GT(avoided.defect, 0u) << name << ": " << avoided.predicate;
    EXPECT_EQ(belonging, summary.findings.size());
    EXPECT_EQ(failures, summary.failing_cases);
  }
}

}  // namespace
}  // namespace attest::engine
