// A problem that a subject does not take is never asked: not by the generator, the laws or the shrinker, and not where
// somebody gives it. Calls are counted at the subject's side. ATTEST_SUPPORTS and ATTEST_PROBLEMS make it longer;
// ATTEST_SUPPORTS_BEFORE leaves out so many supports, so that several processes share them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "demanding_subject.hpp"
#include "engine/campaign.hpp"
#include "generators/draw.hpp"
#include "properties/property.hpp"
#include "subjects/builtin.hpp"
#include "tests/setting.hpp"

namespace attest::engine {
namespace {

using attest::Domain;
using attest::Problem;
using attest::problem_from_text;
using attest::Supports;

using test::Asked;
using test::Demands;

// Demands under which there is some problem.
std::vector<Demands> drawn(std::size_t count) {
  std::vector<Demands> all;
  for (std::uint64_t seed = 1; all.size() < count; ++seed) {
    Demands demands = Demands::draw(seed);
    try {
      const SubjectInfo info = subject_info({"demanding", "1", demands.describe(), {}}, "demanding");
      Domain(info.supports, info.dtypes);
      all.push_back(std::move(demands));
    } catch (const Error&) {  // no multiple in a range, or no hq of an hkv
    }
  }
  return all;
}

TEST(Supports, TheDecisionIsThatOfTheSubject) {
  const Domain everything(Supports::everything(), {Format::f16, Format::bf16, Format::f32, Format::f64});
  std::map<std::string, int> reasons;
  std::uint64_t asked = 0, seed = 0;
  for (const Demands& demands : drawn(setting("ATTEST_SUPPORTS", 100))) {
    const SubjectInfo info = subject_info({"demanding", "1", demands.describe(), {}}, "demanding");
    const Domain own(info.supports, info.dtypes);
    ++seed;
    for (std::uint64_t n = 0; n < 60; ++n) {
      const Problem problem = n % 2 ? draw_problem(own, seed, n, 1, 5) : draw_problem(everything, seed, n, 1, 5);
      if (problem.multiply_adds() > 1 << 16) continue;
      const Inputs inputs = materialise(problem);
      const Tensor out = make_out(problem), lse = make_lse(problem);
      const attest_attention call = inputs.call(out, lse);
      const std::string objection = demands.objection(call);
      const auto of_call = declined(call, info.supports, info.dtypes);
      const auto of_problem = declined(problem, info.supports, info.dtypes);
      ASSERT_EQ(of_call.has_value(), !objection.empty()) << objection << "; " << of_call.value_or("taken") << "\n"
                                                         << to_text(problem) << "\n"
                                                         << demands.describe();
      ASSERT_EQ(of_problem, of_call) << to_text(problem) << "\n" << demands.describe();
      if (n % 2) {
        ASSERT_EQ(objection, "") << to_text(problem) << "\n" << demands.describe();
      }
      of_call ? ++reasons[objection] : static_cast<int>(++asked);
    }
  }
  EXPECT_GT(asked, 1000u);
  EXPECT_GT(reasons.size(), 15u);
}

// The options of a problem by their fields: those that its text names.
std::set<std::string> options(const std::string& problem) {
  std::set<std::string> found;
  for (const char* field :
       {"causal", "window_left", "window_right", "keep", "bias", "lengths", "scale", "softcap", "lse", "threads",
        "q_layout", "k_layout", "v_layout", "out_layout", "mask_layout", "bias_type"})
    if (problem.find(std::string(" ") + field + "=") != std::string::npos) found.insert(field);
  return found;
}

TEST(Supports, NothingThatIsAskedLeavesThem) {
  const std::uint64_t problems = setting("ATTEST_PROBLEMS", 12), before = setting("ATTEST_SUPPORTS_BEFORE", 0);
  const auto peer = builtin_subject("builtin:explicit", {});
  std::vector<std::string> faults;
  for (const ListedSubject& fault : fault_subjects())  // one of these depends on threads, the other on 65,504 keys
    if (fault.name != "fault:race" && fault.name != "fault:sum-overflow-f16") faults.push_back(fault.name);
  Asked asked;
  std::uint64_t drawn_problems = 0, findings = 0, minimal = 0, shrinking = 0, unsupported = 0, verdicts = 0, n = before;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>>
      laws;  // derived calls that were declined, and verdicts
  const std::vector<Demands> all = drawn(before + setting("ATTEST_SUPPORTS", 60));
  for (const Demands& demands : std::span(all).subspan(before)) {
    const auto inner = builtin_subject(faults[n % faults.size()], {});
    const auto subject = test::demanding(*inner, demands, asked);
    CampaignOptions options_of_campaign;
    options_of_campaign.seed = ++n;
    options_of_campaign.cases = problems;
    options_of_campaign.jobs = 1;
    options_of_campaign.laws.further = 4;
    options_of_campaign.continue_after_failure = true;
    Observer silent;
    const Summary summary = run_campaign(*subject, peer.get(), options_of_campaign, silent);
    drawn_problems += summary.cases;
    EXPECT_EQ(summary.skipped.size(), 0u) << "problems were drawn that the subject does not take";
    for (const Finding& finding : summary.findings) {
      ++findings;
      minimal += finding.entry.minimal;
      shrinking += static_cast<std::uint64_t>(finding.entry.shrink_calls);
      const std::set<std::string> before = options(finding.entry.original),
                                  after = options(to_text(finding.entry.problem));
      EXPECT_TRUE(std::ranges::includes(before, after)) << finding.entry.original << "\n"
                                                        << to_text(finding.entry.problem);
    }
    for (const auto& [law, counts] : summary.verdicts) {
      for (const auto& [reason, count] : counts.skipped)
        if (reason.starts_with(unsupported_prefix)) laws[law].first += count, unsupported += count;
      for (const auto& [kind, count] : counts.verdicts) laws[law].second += count, verdicts += count;
    }
    ASSERT_EQ(asked.outside, 0) << asked.first_outside;
    if (n % 200 == 0)
      std::fprintf(stderr, "%llu supports, %lld calls, none outside\n", static_cast<unsigned long long>(n),
                   static_cast<long long>(asked.calls));
  }
  EXPECT_GT(findings, (n - before) / 2);
  EXPECT_GT(shrinking, findings);
  // The laws know beforehand what they can ask: the decision on each call is the last line of defence.
  EXPECT_LT(unsupported, verdicts / 50);
  std::printf(
      "%llu supports, %llu problems, %lld calls, %lld outside; %llu findings, %llu of them 1-minimal, %llu calls of "
      "shrinking\n",
      static_cast<unsigned long long>(n - before), static_cast<unsigned long long>(drawn_problems),
      static_cast<long long>(asked.calls), static_cast<long long>(asked.outside),
      static_cast<unsigned long long>(findings), static_cast<unsigned long long>(minimal),
      static_cast<unsigned long long>(shrinking));
  for (const auto& [law, counts] : laws)
    if (counts.first > 0)
      std::printf("  %-20s %llu derived calls declined beside %llu verdicts\n", law.c_str(),
                  static_cast<unsigned long long>(counts.first), static_cast<unsigned long long>(counts.second));
}

TEST(Supports, AProblemThatIsGivenIsNotAskedEither) {
  const auto inner = builtin_subject("fault:scale-twice", {});
  Demands demands = Demands::draw(1);
  demands.dtypes = {"f32"};
  demands.keep = false;
  demands.strides = "any";
  demands.alignment = 1;
  demands.dims = {};
  demands.dv_is_d = false;
  Asked asked;
  const auto factory = test::demanding(*inner, demands, asked);
  const auto subject = factory->open();
  const Problem problem = problem_from_text("lk=5 d=4 scale=0x1p-1 keep=half values=normal:1");
  const std::vector<std::size_t> laws{law_named(policy_bound_name)};
  const CaseOutcome outcome = check(problem, factory->info().contract(Format::f32), {*subject}, laws);
  EXPECT_EQ(asked.calls, 0);
  EXPECT_EQ(outcome.subject_calls, 0);
  EXPECT_EQ(outcome.laws.front().verdict.kind, VerdictKind::skip);
  EXPECT_EQ(outcome.laws.front().verdict.reason, "unsupported: the subject takes no keep mask");
  Summary summary;
  summary.subject = "mine";
  summary.add(problem, outcome);
  EXPECT_EQ(summary.emptiness(), "mine does not take this problem: the subject takes no keep mask");
}

// Every fault behind a kernel of widths that are multiples of 8: its failures end 1-minimal, soon.
TEST(Supports, WidthsGoDownInMultiples) {
  const auto peer = builtin_subject("builtin:explicit", {});
  std::vector<std::int64_t> calls;
  for (const ListedSubject& fault : fault_subjects()) {
    if (fault.name == "fault:race" || fault.name == "fault:sum-overflow-f16") continue;
    const auto inner = builtin_subject(fault.name, {});
    SubjectInfo info = inner->info();
    info.supports.d = {8, 256, 8};
    info.supports.dv_equals_d = true;
    const test::FakeFactory factory(info, [&inner]() -> test::Answer {
      const std::shared_ptr<Subject> subject = inner->open();
      return [subject](const attest_attention& call) { return subject->run_one(call); };
    });
    CampaignOptions options_of_campaign;
    options_of_campaign.cases = setting("ATTEST_PROBLEMS", 0) > 0 ? 20'000 : 100;
    options_of_campaign.jobs = 1;
    Observer silent;
    const Summary summary = run_campaign(factory, peer.get(), options_of_campaign, silent);
    if (summary.findings.empty()) continue;
    const Entry& entry = summary.findings[0].entry;
    EXPECT_TRUE(entry.minimal) << fault.name << ": " << to_text(entry.problem);
    EXPECT_EQ(entry.problem.as<Problem>().d % 8, 0);
    calls.push_back(entry.shrink_calls);
    std::printf("%-28s %5lld calls, W %lld: %s\n", fault.name.c_str(), static_cast<long long>(entry.shrink_calls),
                static_cast<long long>(entry.problem.as<Problem>().multiply_adds()), to_text(entry.problem).c_str());
  }
  ASSERT_GT(calls.size(), 30u);
  std::ranges::sort(calls);
  EXPECT_LE(calls[calls.size() / 2], 100);
  std::printf("median of %zu: %lld subject calls\n", calls.size(), static_cast<long long>(calls[calls.size() / 2]));
}

}  // namespace
}  // namespace attest::engine
