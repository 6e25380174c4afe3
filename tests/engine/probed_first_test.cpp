// Subjects that declare no policy, held to what their probes show: what that finds, whom it leaves alone, and what is
// kept of it.
#include "engine/probe/first.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "engine/campaign.hpp"
#include "engine/campaign_folder.hpp"
#include "engine/file.hpp"
#include "engine/replay.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"
#include "subjects/describe.hpp"
#include "temporary_folder.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;

const Op& attention() { return *ops::all_ops().front(); }

SubjectInfo silent(const std::string& version, const std::string& dtype = "f16", const std::string& forms = R"({})") {
  return subject_info(
      {"silent", version,
       R"({"ops": ["attention"], "dtypes": [")" + dtype + R"("], "supports": {"forms": )" + forms + "}}", ""},
      "./silent.so");
}

// A built-in kernel that computes in `policy` and promises nothing. Counts its calls.
std::unique_ptr<SubjectFactory> without_contract(const std::string& kernel, const std::string& policy, SubjectInfo info,
                                                 std::atomic<int>* calls = nullptr) {
  const std::shared_ptr<SubjectFactory> inner = builtin_subject(kernel, policy);
  return std::make_unique<test::FakeFactory>(std::move(info), [inner, calls]() -> test::Answer {
    const std::shared_ptr<Subject> subject = inner->open();
    return [inner, subject, calls](const attest_attention& call) {
      if (calls != nullptr) ++*calls;
      return subject->run_one(call);
    };
  });
}

// A kernel of f32 in the middle, whose weights are of f16 where it has more than 40 keys.
std::unique_ptr<SubjectFactory> narrow_past_40_keys(SubjectInfo info) {
  const std::shared_ptr<SubjectFactory> wide = builtin_subject("builtin:explicit", "f16,weights=f32"),
                                        narrow = builtin_subject("builtin:explicit", "f16-all");
  return std::make_unique<test::FakeFactory>(std::move(info), [wide, narrow]() -> test::Answer {
    const std::shared_ptr<Subject> a = wide->open(), b = narrow->open();
    return [wide, narrow, a, b](const attest_attention& call) {
      const std::int64_t keys = call.k.shape[2];
      return keys > 40 && keys < 60 ? b->run_one(call) : a->run_one(call);
    };
  });
}

CampaignOptions options_of(const ProbedFirst& probed, std::uint64_t cases) {
  CampaignOptions options;
  options.subject = "./silent.so";
  options.cases = cases;
  options.observed = probed.observed;
  options.shrink.calls = 200;
  return options;
}

ProbeFirstOptions asking(const fs::path& cache = {}) {
  ProbeFirstOptions options;
  options.cache = cache;
  options.subject = "./silent.so";
  return options;
}

Summary campaign(const SubjectFactory& subject, const CampaignOptions& options) {
  const auto peer = builtin_subject("builtin:explicit", "");
  Observer nobody;
  return run_campaign(subject, peer.get(), options, nobody);
}

// ---- conforming kernels are left alone ------------------------------------------------------------------------------

TEST(ProbedFirst, NoBuiltinKernelIsBlamedForWhatItsProbesShow) {
  int narrowed = 0;
  for (const char* kernel : {"builtin:explicit", "builtin:fused-tile16", "builtin:fused-split", "builtin:fused-exp2"})
    for (const auto& [dtype, policy] : {std::pair{"f16", "f16-all"},
                                        {"f16", "f16"},
                                        {"f16", "f16-all,softmax=f32,pv=f32"},
                                        {"f16", "f16,weights=f32,qk=f16"},
                                        {"bf16", "bf16"},
                                        {"bf16", "bf16-all,qk=f32"}}) {
      if (builtin_subject(kernel, policy) == nullptr) continue;
      ProbedFirst probed = probed_first(without_contract(kernel, policy, silent("1", dtype)), attention(), asking());
      ASSERT_TRUE(probed.observed);
      narrowed += probed.subject->info().declared != nullptr;
      const Summary summary = campaign(*probed.subject, options_of(probed, 150));
      for (const Finding& finding : summary.findings)
        ADD_FAILURE() << kernel << " " << policy << " held to " << to_text(policy_of(finding.entry.contract)) << ": "
                      << finding.entry.bucket << "\n"
                      << to_text(finding.entry.problem);
    }
  EXPECT_GT(narrowed, 8);
}

// ---- what it finds --------------------------------------------------------------------------------------------------

TEST(ProbedFirst, AFaultThatTheGenerousReadingPermitsIsFoundAndSaysOnWhatItRests) {
  const auto plain = narrow_past_40_keys(silent("1"));
  EXPECT_TRUE(campaign(*plain, options_of({}, 400)).findings.empty());

  test::TemporaryFolder folder;
  ProbedFirst probed = probed_first(narrow_past_40_keys(silent("1")), attention(), asking());
  ASSERT_NE(probed.subject->info().declared, nullptr);
  CampaignOptions options = options_of(probed, 400);
  options.corpus = folder.path();
  const Summary summary = campaign(*probed.subject, options);
  ASSERT_FALSE(summary.findings.empty());
  for (const Finding& finding : summary.findings) {
    EXPECT_TRUE(finding.entry.as_probed) << finding.entry.bucket;
    EXPECT_NE(finding.entry.bucket.find("-as-probed"), std::string::npos) << finding.entry.bucket;
  }
  EXPECT_EQ(summary.assumed.size(), 1u);

  // replay asks no probe, and holds the subject to what the entry says.
  const auto replayed = [&](const std::function<std::unique_ptr<SubjectFactory>()>& subject) {
    return replay({folder.path()}, [&](const Entry& entry) { return held_to_entry(subject(), entry); }, nullptr, {});
  };
  const ReplayReport again = replayed([] { return narrow_past_40_keys(silent("1")); });
  EXPECT_EQ(again.as_expected, again.entries);
  const ReplayReport sound =
      replayed([] { return without_contract("builtin:explicit", "f16,weights=f32", silent("1")); });
  EXPECT_EQ(sound.mended, sound.entries);
  EXPECT_GT(sound.entries, 0);
}

// A failure that the declared contract excludes, too, rests on no probe, and is stored without.
TEST(ProbedFirst, AFaultOfTheDeclaredContractStaysOne) {
  const auto wrong = [] {
    const std::shared_ptr<SubjectFactory> inner = builtin_subject("builtin:explicit", "f16");
    return std::make_unique<test::FakeFactory>(silent("1"), [inner]() -> test::Answer {
      const std::shared_ptr<Subject> subject = inner->open();
      return [inner, subject](const attest_attention& call) {
        attest_attention twice = call;
        if (call.k.shape[2] == 5) twice.scale *= 2;
        return subject->run_one(twice);
      };
    });
  };
  ProbedFirst probed = probed_first(wrong(), attention(), asking());
  ASSERT_NE(probed.subject->info().declared, nullptr);
  const Summary summary = campaign(*probed.subject, options_of(probed, 600));
  ASSERT_FALSE(summary.findings.empty());
  EXPECT_TRUE(std::ranges::any_of(summary.findings, [](const Finding& f) {
    return !f.entry.as_probed && f.entry.contract == attention().contract(silent("1"), Format::f16);
  }));
}

// ---- forms ----------------------------------------------------------------------------------------------------------

TEST(ProbedFirst, AFormThatShowsLessKeepsTheGenerousReading) {
  const SubjectInfo info = silent("1", "f16", R"({"path": ["wide", "narrow", "wide_too"]})");
  const std::shared_ptr<SubjectFactory> wide = builtin_subject("builtin:explicit", "f16"),
                                        narrow = builtin_subject("builtin:explicit", "f16-all");
  auto subject = std::make_unique<test::FakeFactory>(info, [wide, narrow]() -> test::Answer {
    const std::shared_ptr<Subject> a = wide->open(), b = narrow->open();
    return [wide, narrow, a, b](const attest_attention& call) {
      const bool is_narrow =
          call.form != nullptr && std::string_view(call.form).find("narrow") != std::string_view::npos;
      return (is_narrow ? b : a)->run_one(call);
    };
  });
  ProbedFirst probed = probed_first(std::move(subject), attention(), asking());
  ASSERT_TRUE(probed.observed);
  EXPECT_EQ(probed.observed->apart, (std::vector<FormChoice>{{"path", "narrow"}}));
  EXPECT_TRUE(probed.observed->unasked.empty());
  EXPECT_TRUE(campaign(*probed.subject, options_of(probed, 300)).findings.empty());
}

// ---- the cache ------------------------------------------------------------------------------------------------------

struct Asked {
  ProbedFirst probed;
  int calls;
};
Asked asked(const fs::path& cache, const std::string& version = "1", double seconds = 1e9) {
  std::atomic<int> calls = 0;
  ProbeFirstOptions options = asking(cache);
  options.seconds = seconds;
  ProbedFirst probed =
      probed_first(without_contract("builtin:explicit", "f16", silent(version), &calls), attention(), options);
  return {std::move(probed), calls};
}

TEST(ProbedFirst, AVersionIsAskedOnce) {
  test::TemporaryFolder cache;
  const Asked first = asked(cache.path());
  EXPECT_GT(first.calls, 0);
  EXPECT_TRUE(first.probed.from.empty());
  const Asked again = asked(cache.path());
  EXPECT_EQ(again.calls, 0);
  EXPECT_TRUE(fs::is_regular_file(again.probed.from));
  EXPECT_EQ(again.probed.observed->contracts, first.probed.observed->contracts);
  EXPECT_TRUE(again.probed.notes.empty());
  EXPECT_GT(asked(cache.path(), "2").calls, 0);
  EXPECT_GT(asked({}).calls, 0);
}

TEST(ProbedFirst, AFileThatIsDamagedOrForeignIsSaidAndWrittenAnew) {
  test::TemporaryFolder cache;
  asked(cache.path());
  const fs::path file = asked(cache.path()).probed.from;
  const std::string text = read_file(file, 1 << 20);
  std::string altered = text;
  altered.replace(altered.find("\"kappa\": 8"), 10, "\"kappa\": 9");
  std::string foreign = text;
  foreign.replace(foreign.find("\"version\": \"1\""), 14, "\"version\": \"9\"");
  for (const std::string& other :
       {std::string(), text.substr(0, text.size() / 2), altered, foreign, std::string("[]")}) {
    write_file(file, other);
    const Asked anew = asked(cache.path());
    EXPECT_GT(anew.calls, 0);
    ASSERT_EQ(anew.probed.notes.size(), 1u);
    EXPECT_NE(anew.probed.notes[0].find(file.string()), std::string::npos);
    EXPECT_EQ(read_file(file, 1 << 20), text);
    EXPECT_EQ(asked(cache.path()).calls, 0);
  }
}

TEST(ProbedFirst, ThatItCannotBeKeptIsSaid) {
  test::TemporaryFolder folder;
  write_file(folder.path() / "file", "");
  const Asked once = asked(folder.path() / "file" / "below");
  EXPECT_TRUE(once.probed.observed);
  EXPECT_EQ(once.probed.notes.size(), 1u);
}

// A probe that has no time assumes nothing, and is asked again with more than twice as much.
TEST(ProbedFirst, WithoutTimeNothingIsAssumed) {
  test::TemporaryFolder cache;
  const Asked none = asked(cache.path(), "1", 1e-9);
  EXPECT_EQ(none.probed.subject->info().declared, nullptr);
  EXPECT_EQ(asked(cache.path(), "1", 2e-9).calls, 0);
  EXPECT_NE(asked(cache.path()).probed.subject->info().declared, nullptr);
}

TEST(ProbedFirst, AFirstCallThatTakesLongerThanTheTimeIsNotBegun) {
  std::atomic<int> calls = 0;
  SubjectInfo info = silent("1.0");
  info.plan_ms = 1500;
  info.warm_up_ms = 5000;
  ProbeFirstOptions options = asking();
  options.seconds = 6;
  const ProbedFirst probed =
      probed_first(without_contract("builtin:explicit", "f16", info, &calls), attention(), options);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(probed.observed->seconds, 6);
  info.warm_up_ms = 4000;
  EXPECT_FALSE(
      probed_first(without_contract("builtin:explicit", "f16", info, &calls), attention(), options).observed->seconds);
  EXPECT_GT(calls, 0);
}

TEST(ProbedFirst, WhoDeclaresAPolicyOrHasNothingToGainIsNotAsked) {
  std::atomic<int> calls = 0;
  EXPECT_FALSE(probed_first(without_contract("builtin:fused", "f32", silent("1", "f32"), &calls), attention(), asking())
                   .observed);
  EXPECT_FALSE(probed_first(builtin_subject("builtin:fused", "f16"), attention(), asking()).observed);
  EXPECT_EQ(calls, 0);
}

// ---- campaign folders -----------------------------------------------------------------------------------------------

TEST(ProbedFirst, ACampaignFolderSaysWhatItsSubjectIsHeldTo) {
  test::TemporaryFolder folder;
  ProbedFirst probed = probed_first(without_contract("builtin:explicit", "f16", silent("1")), attention(), asking());
  CampaignOptions options = options_of(probed, 5);
  options.folder = folder.path() / "campaign";
  campaign(*probed.subject, options);
  const auto observed = observed_in(options.folder, silent("1"), attention());
  ASSERT_TRUE(observed);
  EXPECT_EQ(observed->contracts, probed.observed->contracts);
  options.cases = 10;
  const auto again = held_to(without_contract("builtin:explicit", "f16", silent("1")), attention(), *observed);
  options.observed = observed;
  EXPECT_EQ(campaign(*again, options).cases, 10u);
}

}  // namespace
}  // namespace attest::engine
