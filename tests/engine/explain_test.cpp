#include "engine/explain/explain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "core/tensor.hpp"
#include "engine/instance.hpp"
#include "engine/replay.hpp"
#include "engine/stream.hpp"
#include "fake_subject.hpp"
#include "report/explain.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

using Match = Hypothesis::Match;

// An entry as a campaign would write it, of a law that fails, on a problem that is given.
Entry entry_of(const SubjectFactory& subject, const std::string& problem, const std::string& property = "policy-bound",
               const std::string& policy = {}) {
  Entry entry;
  entry.subject = subject.info().name;
  entry.problem = problem_from_text(problem);
  entry.property = property;
  entry.policy_given = !policy.empty();
  const auto given = policy.empty() ? std::optional<Policy>() : entry.problem.op().policy_from_text(policy);
  entry.contract = contract_for_problem(subject.info(), given, entry.problem);
  return entry;
}

Explanation explained(const SubjectFactory& subject, const Entry& entry, ExplainLimits limits = {}) {
  const auto peer = builtin_subject("builtin:explicit", {});
  Station station(subject, peer.get());
  return explain(entry, station.bench(), {subject.info(), entry.problem.op().dtypes(subject.info()), {}}, limits);
}

Explanation explained(const std::string& name, const std::string& problem,
                      const std::string& property = "policy-bound") {
  const auto subject = builtin_subject(name, {});
  return explained(*subject, entry_of(*subject, problem, property));
}

bool has_fit(const Explanation& e, std::string_view part) {
  return std::ranges::any_of(e.fits, [&](const Fit& fit) { return fit.words.find(part) != std::string::npos; });
}

// The numbers that a kernel gives for a problem.
std::vector<double> numbers(const std::string& name, const attest::Problem& problem) {
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem), lse = make_lse(problem);
  const auto factory = builtin_subject(name, {});
  EXPECT_EQ(factory->open()->run_one(inputs.call(out, lse)).status, CallStatus::done) << name;
  std::vector<double> all;
  for (Index b = 0; b < problem.b; ++b)
    for (Index h = 0; h < problem.hq; ++h)
      for (Index i = 0; i < problem.lq; ++i) {
        for (Index c = 0; c < problem.dv; ++c) all.push_back(out.at(b, h, i, c));
        if (lse.present()) all.push_back(lse.at(b, h, i));
      }
  return all;
}
bool equal(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

constexpr const char* plain =
    "b=2 hq=4 hkv=2 lq=5 lk=70 d=8 dv=4 dtype=f32 values=normal seed=7 lse=f32 causal=1 bias=normal scale=0x1p-1";

TEST(Explain, NamesTheFaultOfAnEntryOfItsOwn) {
  for (const char* name : {"scale-missing", "scale-twice", "gqa-modulo", "pv-acc-f16", "lse-wrong-base"}) {
    const Explanation e = explained(std::string("fault:") + name, plain);
    ASSERT_TRUE(e.fails) << name;
    ASSERT_FALSE(e.hypotheses.empty()) << name;
    EXPECT_EQ(e.hypotheses.front().name, std::string("fault:") + name);
    EXPECT_EQ(e.hypotheses.front().match, Match::same);
    EXPECT_EQ(e.alike(), 1u) << name;
    EXPECT_EQ(e.stage, e.hypotheses.front().stage);
  }
}

// The kernels that are said to give the same numbers do, and no other does: the kernels themselves are asked.
TEST(Explain, SaysTheSameNumbersOfThoseAloneThatGiveThem) {
  const attest::Problem problem = attest::problem_from_text(plain);
  for (const char* name : {"fault:scale-missing", "fault:causal-corner", "fault:softmax-f16", "fault:bias-broadcast"}) {
    const Explanation e = explained(name, plain);
    const std::vector<double> seen = numbers(name, problem);
    for (const ListedSubject& fault : fault_subjects("attention")) {
      const auto told = std::ranges::find(e.hypotheses, fault.name, &Hypothesis::name);
      const bool same = told != e.hypotheses.end() && told->match == Match::same;
      EXPECT_EQ(same, equal(seen, numbers(fault.name, problem))) << name << " told as " << fault.name;
    }
  }
}

TEST(Explain, AFaultThatShowsOtherwiseIsNoHypothesis) {
  // scale-twice where the numbers are those of scale-missing: at most something that comes near, behind it.
  const Explanation e = explained("fault:scale-missing", plain);
  for (const Hypothesis& h : e.hypotheses)
    EXPECT_TRUE(h.name == "fault:scale-missing" || h.match != Match::same) << h.name;
  EXPECT_FALSE(has_fit(e, "the scale applied twice"));
  EXPECT_TRUE(has_fit(e, "the scale ignored"));
}

TEST(Explain, NothingOfAConformingKernel) {
  for (const char* name : {"builtin:fused", "builtin:explicit", "builtin:fused-reversed", "builtin:fused-truncating"}) {
    const Explanation e = explained(name, plain);
    EXPECT_FALSE(e.fails) << name;
    EXPECT_TRUE(e.hypotheses.empty() && e.fits.empty() && e.where.empty()) << name;
    const auto subject = builtin_subject(name, {});
    EXPECT_NE(report::explanation_text(entry_of(*subject, plain), e).find("nothing to explain"), std::string::npos);
    EXPECT_EQ(report::brief_text(e, [](std::string_view, const std::string& text) { return text; }), "");
  }
}

// A fault that gives what a right kernel gives on this problem says nothing of it.
TEST(Explain, AHypothesisThatEqualsTheRightResultSaysNothing) {
  const Explanation e = explained("fault:scale-missing", plain);
  for (const char* silent : {"fault:window-off-by-one", "fault:softcap-dropped", "fault:kv-length-ignored"})
    EXPECT_EQ(std::ranges::find(e.hypotheses, silent, &Hypothesis::name), e.hypotheses.end()) << silent;
}

TEST(Explain, LeavesOutAFamily) {
  const auto subject = builtin_subject("fault:scale-missing", {});
  ExplainLimits limits;
  limits.families_left_out = {"scale"};
  const Explanation e = explained(*subject, entry_of(*subject, plain), limits);
  for (const Hypothesis& h : e.hypotheses) EXPECT_NE(h.family, "scale");
  EXPECT_EQ(e.stage, "scale");  // by what fits
}

// ---- geometry -------------------------------------------------------------------------------------------------------

const WrongPlace& place(const Explanation& e, const std::string& tensor) {
  const auto found = std::ranges::find(e.where, tensor, &WrongPlace::tensor);
  static const WrongPlace none;
  EXPECT_NE(found, e.where.end());
  return found == e.where.end() ? none : *found;
}

TEST(Explain, SaysWhichBatchesHeadsAndRows) {
  const char* problem = "b=3 hq=4 hkv=2 lq=5 lk=9 d=4 dv=2 dtype=f32 values=normal seed=3";
  EXPECT_EQ(place(explained("fault:batch-leak", problem), "out").words, "all 80 where batch >= 1; no other");
  EXPECT_EQ(place(explained("fault:gqa-modulo", problem), "out").words,
            "all 60 where head >= 1 and head <= 2; no other");
  const WrongPlace last = place(explained("fault:unwritten", problem), "out");
  EXPECT_EQ(last.words, "all 24 where row = 4 (the last); no other");
  EXPECT_EQ(last.relation, "each is NaN");
}

// A subject of one's own, with one step wrong that the catalogue has not.
TEST(Explain, SaysWhichColumnsOfABlackBox) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto subject = test::meddled(*fused, [](const attest_attention& call, CallResult result) {
    for (Index b = 0; b < call.out.shape[0]; ++b)
      for (Index h = 0; h < call.out.shape[1]; ++h)
        for (Index i = 0; i < call.out.shape[2]; ++i)
          for (Index c = 8; c < call.out.shape[3]; ++c) store(call.out, b, h, i, c, 2 * load(call.out, b, h, i, c));
    return result;
  });
  const Explanation e =
      explained(*subject, entry_of(*subject, "b=1 hq=2 hkv=2 lq=3 lk=7 d=4 dv=12 dtype=f32 values=normal seed=5"));
  EXPECT_EQ(place(e, "out").words, "all 24 where column >= 8; no other");
  EXPECT_EQ(place(e, "out").relation, "each is 2 times what is right");
  for (const Hypothesis& h : e.hypotheses) EXPECT_NE(h.match, Match::same) << h.name;
}

// ---- what it fits, of a black box -----------------------------------------------------------------------------------

// A kernel that computes in another policy than the one it declares.
std::unique_ptr<SubjectFactory> liar(const std::string& kernel, const std::string& policy) {
  SubjectInfo info = builtin_subject("builtin:fused", {})->info();
  info.name = "black-box";
  const std::shared_ptr<SubjectFactory> factory = builtin_subject(kernel, policy);
  return std::make_unique<test::FakeFactory>(info, [factory]() -> test::Answer {
    const std::shared_ptr<Subject> subject = factory->open();
    return [subject](const attest_attention& call) { return subject->run_one(call); };
  });
}

TEST(Explain, SaysWhichStageOfABlackBoxIsNarrow) {
  // With few terms an error fills much of what sums of as many permit.
  const char* few = "b=1 hq=2 hkv=2 lq=4 lk=2 d=2 dv=8 dtype=f32 values=normal seed=11 lse=f32";
  for (const char* stage : {"pv", "qk"}) {
    const auto subject = liar("builtin:fused-tile16", std::string("f32,") + stage + "=f16");
    const Explanation e = explained(*subject, entry_of(*subject, few));
    ASSERT_TRUE(e.fails) << stage;
    EXPECT_TRUE(has_fit(e, std::string("(") + stage + "=f16)")) << stage;
  }
  // With many terms bf16 permits some hundred times what f16 errs by: that is no fit.
  const char* problem = "b=1 hq=2 hkv=2 lq=4 lk=40 d=16 dv=8 dtype=f32 values=normal seed=11 lse=f32";
  for (const char* stage : {"pv", "qk"}) {
    const auto narrow = liar("builtin:fused-tile16", std::string("f32,") + stage + "=f16");
    const Explanation e = explained(*narrow, entry_of(*narrow, problem));
    ASSERT_TRUE(e.fails) << stage;
    EXPECT_FALSE(has_fit(e, std::string("(") + stage + "=bf16)")) << stage;
    ASSERT_FALSE(e.fits.empty()) << stage;
    double most = 1;
    for (const Fit& fit : e.fits) {
      if (!fit.everywhere()) break;
      EXPECT_GE(fit.fill, Fit::least_fill) << fit.words;
      EXPECT_LE(fit.fill, most) << fit.words << " is not told in its place";
      if (fit.exact == 0) most = fit.fill;
    }
  }
  // Numbers that are none of a format were not rounded to it; and no call is read otherwise here.
  const auto subject = liar("builtin:fused-tile16", "f32,pv=f16");
  const Explanation e = explained(*subject, entry_of(*subject, problem));
  EXPECT_FALSE(has_fit(e, "(output=f16)"));
  for (const Fit& fit : e.fits) EXPECT_NE(fit.kind, ops::Departure::Kind::semantics) << fit.words;
}

// A call whose rows are looked at in part by most promises: a promise that permits all rows but one is told nowhere,
// whichever row it is.
TEST(Explain, FitsAreAskedOfAllElements) {
  const char* problem = "b=1 hq=1 hkv=1 lq=600 lk=32 d=4 dv=8 dtype=f32 values=normal seed=11";
  const std::shared_ptr<SubjectFactory> narrow = builtin_subject("builtin:explicit", "f32,weights=bf16");
  for (const Index row : {Index{-1}, Index{0}, Index{1}, Index{2}, Index{3}, Index{298}, Index{299}, Index{599}}) {
    SubjectInfo info = builtin_subject("builtin:fused", {})->info();
    info.name = "black-box";
    const test::FakeFactory subject(info, [narrow, row]() -> test::Answer {
      const std::shared_ptr<Subject> kernel = narrow->open();
      return [kernel, row](const attest_attention& call) {
        const CallResult result = kernel->run_one(call);
        if (row >= 0 && row < call.out.shape[2]) store(call.out, 0, 0, row, 3, 1e6);
        return result;
      };
    });
    const Explanation e = explained(subject, entry_of(subject, problem));
    ASSERT_TRUE(e.outside) << row;
    EXPECT_EQ(e.fits.empty(), row >= 0) << row;
    for (const auto* words : {&e.policies_that_fit, &e.policies_excluded})
      EXPECT_EQ(std::ranges::count(*words, "bf16-all"), 0) << "it stores other numbers";
    EXPECT_TRUE(row < 0 || e.policies_that_fit.empty()) << row << ": " << e.policies_that_fit.front();
  }
  ExplainLimits limits;
  limits.fit_work = 1;  // no room
  const auto subject = liar("builtin:explicit", "f32,weights=bf16");
  const Explanation e = explained(*subject, entry_of(*subject, problem), limits);
  EXPECT_TRUE(e.fits.empty());
  EXPECT_FALSE(e.notes.empty());
}

// A small problem has numbers that many faults give: one is named if it gives those before shrinking, too.
TEST(Explain, NamesAFaultOnlyIfTheProblemBeforeShrinkingAgrees) {
  const char* small = "b=1 hq=1 hkv=1 lq=1 lk=2 d=2 dv=1 dtype=f32 values=normal seed=7 scale=0x1p-1";
  const std::shared_ptr<SubjectFactory> missing = builtin_subject("fault:scale-missing", {}),
                                        twice = builtin_subject("fault:scale-twice", {});
  for (const bool alike : {true, false}) {
    SubjectInfo info = missing->info();
    info.name = "black-box";
    const test::FakeFactory subject(info, [&, alike]() -> test::Answer {
      const std::shared_ptr<Subject> first = missing->open(), second = alike ? missing->open() : twice->open();
      return [first, second](const attest_attention& call) {
        return (call.k.shape[2] > 8 ? second : first)->run_one(call);
      };
    });
    Entry entry = entry_of(subject, small);
    const Explanation lone = explained(subject, entry);
    ASSERT_FALSE(lone.hypotheses.empty());
    EXPECT_EQ(lone.hypotheses.front().name, "fault:scale-missing");
    entry.original = to_text(problem_from_text(plain));
    const Explanation e = explained(subject, entry);
    EXPECT_TRUE(e.was_shrunk);
    EXPECT_EQ(!e.hypotheses.empty() && e.hypotheses.front().name == "fault:scale-missing", alike);
    EXPECT_EQ(e.hypotheses.empty(), !alike);
    // A problem that cannot be asked names nothing, and the note says so.
    entry.original = "b=1 hq=1 hkv=1 lq=1 lk=70 d=8 dv=4 dtype=f32 values=captured:gone.npz seed=7";
    const Explanation gone = explained(subject, entry);
    EXPECT_TRUE(gone.hypotheses.empty());
    EXPECT_FALSE(gone.notes.empty());
  }
}

TEST(Explain, SaysHowABlackBoxReadTheCall) {
  const auto fused = builtin_subject("builtin:explicit", {});
  const auto subject = std::make_unique<test::FakeFactory>(fused->info(), [&]() -> test::Answer {
    const std::shared_ptr<Subject> inner = fused->open();
    return [inner](const attest_attention& call) {
      attest_attention other = call;
      other.scale *= other.scale;
      other.flags &= ~static_cast<std::uint64_t>(ATTEST_SCALE_IS_DEFAULT);
      return inner->run_one(other);
    };
  });
  const Explanation e =
      explained(*subject, entry_of(*subject, "b=1 hq=2 hkv=2 lq=4 lk=40 d=16 dv=8 dtype=f32 values=normal seed=11"));
  ASSERT_TRUE(e.fails);
  EXPECT_TRUE(has_fit(e, "the scale applied twice"));
  EXPECT_EQ(e.stage, "scale");
  // The same fault in another kernel, whose sums come in another order.
  ASSERT_FALSE(e.hypotheses.empty());
  EXPECT_EQ(e.hypotheses.front().name, "fault:scale-twice");
  EXPECT_NE(e.hypotheses.front().match, Match::partly);
}

// ---- stages on the way ----------------------------------------------------------------------------------------------

enum class Slip { in_scores, in_weights, behind };

// Attention by its formulas in double, one head after the other, which gives its scores and weights, and has one step
// wrong.
void by_formula(const attest_attention& call, Slip slip) {
  const Index keys = call.k.shape[2], group = call.q.shape[1] / call.k.shape[1];
  std::vector<double> s(static_cast<std::size_t>(keys));
  for (Index b = 0; b < call.q.shape[0]; ++b)
    for (Index h = 0; h < call.q.shape[1]; ++h)
      for (Index i = 0; i < call.q.shape[2]; ++i) {
        double sum = 0, largest = -1e300;
        for (Index j = 0; j < keys; ++j) {
          double dot = 0;
          for (Index c = 0; c < call.q.shape[3]; ++c)
            dot += load(call.q, b, h, i, c) * load(call.k, b, h / group, j, c);
          double& score = s[static_cast<std::size_t>(j)];
          score = dot * call.scale * (slip == Slip::in_scores ? 1.5 : 1);
          largest = std::max(largest, score);
          if (attest_present(&call.scores)) store(call.scores, b, h, i, j, score);
        }
        for (double& score : s) {
          score = std::exp((score - largest) * (slip == Slip::in_weights ? 1.5 : 1));
          sum += score;
        }
        for (Index c = 0; c < call.v.shape[3]; ++c) {
          double out = 0;
          for (Index j = 0; j < keys; ++j)
            out += s[static_cast<std::size_t>(j)] / sum * load(call.v, b, h / group, j, c);
          store(call.out, b, h, i, c, out * (slip == Slip::behind ? 1.5 : 1));
        }
        for (Index j = 0; j < keys && attest_present(&call.weights); ++j)
          store(call.weights, b, h, i, j, s[static_cast<std::size_t>(j)] / sum);
      }
}

TEST(Explain, SaysTheFirstStageOutOfItsBound) {
  SubjectInfo info = builtin_subject("builtin:fused", {})->info();
  info.supports.stages = {"scores", "weights"};
  const auto stages = [&](Slip slip) {
    const test::FakeFactory subject(info, [slip]() -> test::Answer {
      return [slip](const attest_attention& call) {
        by_formula(call, slip);
        return CallResult{};
      };
    });
    const Explanation e =
        explained(subject, entry_of(subject, "b=1 hq=2 hkv=1 lq=3 lk=9 d=4 dv=3 dtype=f32 values=normal seed=2"));
    EXPECT_TRUE(e.fails);
    EXPECT_EQ(e.stages.size(), 2u);
    return e;
  };
  const Explanation scores = stages(Slip::in_scores), weights = stages(Slip::in_weights), behind = stages(Slip::behind);
  EXPECT_EQ(scores.stage, "scores");
  EXPECT_EQ(scores.stages[0].judged, 54);
  EXPECT_EQ(weights.stage, "weights");
  EXPECT_EQ(weights.stages[0].wrong, 0);
  EXPECT_EQ(behind.stages[0].wrong + behind.stages[1].wrong, 0);
  EXPECT_NE(behind.stage, "scores");
}

// A black box whose stages tell where it goes wrong: the search goes on within the first one that is out of its bound.
TEST(Explain, LooksWithinTheStageThatIsOutOfItsBound) {
  const char* block = "op=mha l=3 m=3 e=4 heads=2 kv_heads=2 head_dim=2 self=1 weights=dense seed=4";
  ExplainLimits limits;
  const auto without = [&](const char* name, const char* family) {
    limits.families_left_out = {family};
    const auto subject = builtin_subject(name, {});
    return explained(*subject, entry_of(*subject, block), limits);
  };
  EXPECT_EQ(without("fault:mha-head-transpose", "layout").stage, "heads");
  EXPECT_EQ(without("fault:mha-qkv-order", "wrong operand").stage, "q");
  const Explanation softmax = without("fault:mha-softmax-f16", "narrow softmax");
  EXPECT_EQ(softmax.stages.size(), 4u);
  EXPECT_EQ(softmax.stage, "softmax");  // within heads, not gemm, which fits no worse
}

// exp of a large score alone overflows: its result is no number, and small scores are right.
TEST(Explain, SaysWhatOverflows) {
  ExplainLimits limits;
  limits.families_left_out = {"maximum"};
  const auto subject = builtin_subject("fault:no-max-subtraction", {});
  const Explanation e = explained(
      *subject,
      entry_of(*subject, "b=1 hq=1 hkv=1 lq=1 lk=3 d=4 dv=2 dtype=f32 values=integers:4 seed=3", "policy-bound"),
      limits);
  ASSERT_TRUE(e.fails);
  EXPECT_EQ(e.stage, "softmax");
  // A NaN of another origin is none of this: its scores are no larger than exp takes.
  limits.families_left_out = {"empty row"};
  const auto empty = builtin_subject("fault:row-empty-nan", {});
  const Explanation other = explained(
      *empty, entry_of(*empty, "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 keep=closed values=normal:1 seed=3"),
      limits);
  ASSERT_TRUE(other.fails);
  EXPECT_EQ(other.stage_by.find("overflows"), std::string::npos) << other.stage_by;
}

// A law that fails names the stage that it isolates, where every result by itself is right.
TEST(Explain, SaysTheStageThatALawHoldsApart) {
  ExplainLimits limits;
  limits.families_left_out = {"splits"};
  const auto subject = builtin_subject("fault:thread-split", {});
  const Entry entry =
      entry_of(*subject, "b=1 hq=1 hkv=1 lq=1 lk=18 d=1 dv=1 dtype=f32 values=integers:1 seed=0", "threads");
  const Explanation e = explained(*subject, entry, limits);
  ASSERT_TRUE(e.fails);
  EXPECT_FALSE(e.outside);
  EXPECT_EQ(e.stage, "partial");
  EXPECT_NE(e.stage_by.find("threads"), std::string::npos);
  // A fault that gives the numbers says more.
  EXPECT_EQ(explained(*subject, entry).stage_by, "fault:thread-split");
}

TEST(Explain, SaysNoPlaceOfASingleElement) {
  const auto subject = builtin_subject("fault:scale-missing", {});
  const Entry entry =
      entry_of(*subject, "b=1 hq=1 hkv=1 lq=1 lk=2 d=2 dv=1 dtype=f32 scale=0x1p-2 values=normal:1 seed=1");
  const Explanation e = explained(*subject, entry);
  ASSERT_TRUE(e.fails);
  ASSERT_EQ(e.where.size(), 1u);
  EXPECT_EQ(e.where.front().judged, 1);
  EXPECT_TRUE(e.where.front().words.empty());
  const std::string text = report::explanation_text(entry, e);
  EXPECT_EQ(text.find("all 1"), std::string::npos) << text;
  EXPECT_EQ(text.find("where "), std::string::npos) << text;
}

// A single number that is a plain multiple of what is right.
TEST(Explain, SaysThePlainFactorOfASingleElement) {
  const auto fused = builtin_subject("builtin:fused", {});
  const auto relation = [&](double factor) {
    const auto subject = test::meddled(*fused, [factor](const attest_attention& call, CallResult result) {
      store(call.out, 0, 0, 0, 0, factor * load(call.out, 0, 0, 0, 0));
      return result;
    });
    const Entry entry = entry_of(*subject, "b=1 hq=1 hkv=1 lq=1 lk=2 d=2 dv=1 dtype=f32 values=normal:1 seed=1");
    const Explanation e = explained(*subject, entry);
    EXPECT_EQ(e.where.size(), 1u);
    return e.where.empty() ? std::string() : e.where.front().relation;
  };
  EXPECT_EQ(relation(2), "it is 2 times what is right");
  EXPECT_EQ(relation(0.5), "it is 1/2 of what is right");
  EXPECT_EQ(relation(-1), "it has the other sign");
  EXPECT_EQ(relation(0), "it is 0");
  EXPECT_EQ(relation(1.37), "");  // any number is some multiple of another
}

// ---- what was asked -------------------------------------------------------------------------------------------------

TEST(Explain, SaysWhatMakesItPass) {
  const Explanation e =
      explained("fault:tail-dropped", "b=1 hq=1 hkv=1 lq=1 lk=65 d=2 dv=1 dtype=f32 values=normal seed=1");
  EXPECT_NE(std::ranges::find(e.passes_at, "lk: 65 -> 64"), e.passes_at.end());
  EXPECT_NE(std::ranges::find(e.fails_at, "lk: 65 -> 66"), e.fails_at.end());
}

TEST(Explain, LooksIntoTheCallsOfALaw) {
  const Explanation e =
      explained("fault:lse-wrong-base", "b=1 hq=1 hkv=1 lq=1 lk=3 d=2 dv=1 dtype=f32 values=normal seed=1", "lse");
  ASSERT_TRUE(e.fails);
  EXPECT_TRUE(e.outside);
  ASSERT_EQ(e.where.size(), 1u);
  EXPECT_EQ(e.where.front().tensor, "lse");
  EXPECT_EQ(e.hypotheses.front().name, "fault:lse-wrong-base");
}

TEST(Explain, IsTheSameEachTime) {
  for (const char* name : {"fault:scale-missing", "fault:pv-acc-f16"})
    EXPECT_EQ(to_json(explained(name, plain)).dump(), to_json(explained(name, plain)).dump()) << name;
}

// ---- calls that are kept --------------------------------------------------------------------------------------------

TEST(KeptCall, IsTheSameByElementsAndByTheBytesAroundThem) {
  const attest::Problem problem = attest::problem_from_text(
      "b=1 hq=1 hkv=1 lq=2 lk=3 d=2 dv=2 dtype=f32 values=normal seed=1 out_layout=padded_rows");
  const Inputs inputs = materialise(problem);
  const Tensor out = make_out(problem), lse = make_lse(problem);
  const auto fused = builtin_subject("builtin:fused", {});
  const auto instance = fused->open();
  const Call call = inputs.call(out, lse);
  auto kept = KeptCall::before(call, 1 << 20);
  ASSERT_TRUE(kept);
  kept->after(call, instance->run_one(call));
  const auto answered = [&] {
    CallCopy copy = kept->again();
    instance->run_one(copy.call());
    return copy;
  };
  const CallCopy same = answered();
  EXPECT_TRUE(kept->same(same));
  EXPECT_TRUE(KeptCall::same(same, answered()));
  CallCopy other = answered();
  const attest_tensor& changed = other.call().as<attest_attention>().out;
  store(changed, 0, 0, 1, 1, load(changed, 0, 0, 1, 1) + 1);
  EXPECT_FALSE(kept->same(other));
  EXPECT_FALSE(KeptCall::same(same, other));
  CallCopy damaged = answered();
  std::memset(static_cast<std::byte*>(damaged.call().as<attest_attention>().out.data) - 1, 0, 1);
  EXPECT_FALSE(kept->same(damaged));
  EXPECT_FALSE(KeptCall::before(call, 64));
}

}  // namespace
}  // namespace attest::engine
