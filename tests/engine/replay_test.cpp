#include "engine/replay.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "engine/campaign.hpp"
#include "engine/file.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"
#include "temporary_folder.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<SubjectFactory> resolve(const Entry& entry) {
  auto factory = builtin_subject(entry.subject, std::nullopt);
  if (!factory) throw Error(Exit::no_subject, entry.subject + " is not here");
  return factory;
}

class Replay : public testing::Test {
 protected:
  void SetUp() override {
    const auto fault = builtin_subject("fault:tail-included", std::nullopt);
    CampaignOptions options;
    options.subject = "fault:tail-included";
    options.cases = 20;
    options.laws.property_glob = "policy-bound";
    options.corpus = folder.path();
    Observer silent;
    const Summary summary = run_campaign(*fault, nullptr, options, silent);
    ASSERT_FALSE(summary.findings.empty());
    file = summary.findings[0].reproducer;
    entry = summary.findings[0].entry;
    for (const fs::path& other : corpus_files({folder.path()}))
      if (other != file) fs::remove(other);
  }

  ReplayReport run(const Resolve& with = resolve) {
    results.clear();
    return replay({folder.path()}, with, nullptr, [&](const ReplayResult& result) { results.push_back(result); });
  }

  test::TemporaryFolder folder;
  fs::path file;
  Entry entry;
  std::vector<ReplayResult> results;
};

TEST_F(Replay, AReproducerFailsAsExpected) {
  const ReplayReport report = run();
  EXPECT_EQ(report.as_expected, 1);
  EXPECT_EQ(report.exit(false), Exit::held);
  EXPECT_EQ(results[0].bucket, entry.bucket);
}

TEST_F(Replay, AMendedSubjectIsReported) {
  const ReplayReport report = run([](const Entry&) { return builtin_subject("builtin:fused", std::nullopt); });
  EXPECT_EQ(report.mended, 1);
  EXPECT_EQ(report.exit(false), Exit::found);
}

TEST_F(Replay, UnderExpectPassAFailureIsUnexpectedUntilItIsMended) {
  const auto outcomes = [&](const Resolve& with) { return replay({folder.path()}, with, nullptr, {}, true); };
  const ReplayReport failing = outcomes(resolve);
  EXPECT_EQ(failing.unexpected, 1);
  EXPECT_EQ(failing.exit(false), Exit::found);
  const ReplayReport mended = outcomes([](const Entry&) { return builtin_subject("builtin:fused", std::nullopt); });
  EXPECT_EQ(mended.as_expected, 1);
  EXPECT_EQ(mended.exit(false), Exit::held);
}

TEST_F(Replay, AnExpectedPassThatFailsIsUnexpected) {
  fs::remove(file);
  entry.expect = VerdictKind::pass;
  write_entry(entry, folder.path());
  const ReplayReport report = run();
  EXPECT_EQ(report.unexpected, 1);
  EXPECT_EQ(report.exit(false), Exit::found);
  entry.subject = "builtin:fused";
  write_entry(entry, folder.path());
  EXPECT_EQ(run().as_expected, 1);
}

TEST_F(Replay, AnotherBucketIsUnexpected) {
  fs::remove(file);
  entry.bucket += "+batch";
  write_entry(entry, folder.path());
  EXPECT_EQ(run().unexpected, 1);
}

TEST_F(Replay, ALogSumExpThatShrinkingAskedForIsNotInTheBucket) {
  fs::remove(file);
  const auto fault = builtin_subject("fault:scale-missing", std::nullopt);
  CampaignOptions options;
  options.subject = "fault:scale-missing";
  options.corpus = folder.path();
  options.cases = 20;
  Observer silent;
  bool added = false;
  for (options.seed = 1; options.seed <= 20 && !added; ++options.seed) {
    const Summary summary = run_campaign(*fault, nullptr, options, silent);
    ASSERT_FALSE(summary.findings.empty());
    const Entry& found = summary.findings[0].entry;
    added = found.lse_added;
    if (!added) continue;
    EXPECT_NE(found.problem.lse, LseOutput::none);
    EXPECT_EQ(problem_from_text(found.original).lse, LseOutput::none);
    EXPECT_EQ(found.bucket.find("lse"), std::string::npos) << found.bucket;
  }
  EXPECT_TRUE(added);
  const ReplayReport report = run();
  EXPECT_EQ(report.as_expected, report.entries);
}

// Its reproducer may show a failure by the log-sum-exp alone; a kernel without one is asked what it began with.
TEST_F(Replay, ASubjectWithoutALogSumExpIsAskedForTheProblemBeforeShrinking) {
  fs::remove(file);
  entry.original = "lq=3 lk=5 d=4 dv=4 scale=0x1p-1 lse=f32 values=normal:1";
  entry.problem = problem_from_text("scale=0x1p-1 lse=f32 values=normal:1 v_form=zero");
  write_entry(entry, folder.path());
  const auto inner = builtin_subject("fault:scale-missing", std::nullopt);
  SubjectInfo without = inner->info();
  without.supports.lse = false;
  std::vector<Index> keys;
  const Resolve resolve_without = [&](const Entry&) {
    return std::make_unique<test::FakeFactory>(without, [&]() -> test::Answer {
      const std::shared_ptr<Subject> subject = inner->open();
      return [&, subject](const attest_attention& call) {
        EXPECT_FALSE(attest_present(&call.lse));
        keys.push_back(call.k.shape[2]);
        return subject->run({&call, 1}).front();
      };
    });
  };
  results.clear();
  replay(
      {folder.path()}, resolve_without, nullptr, [&](const ReplayResult& result) { results.push_back(result); }, true);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].outcome, Replayed::unexpected) << results[0].sentence;  // it fails there too
  EXPECT_EQ(keys, std::vector<Index>{5});
}

TEST_F(Replay, DamagedFilesAreNamedAndTheRestStillRun) {
  const std::string text = read_file(file, 1 << 20);
  std::ofstream(folder.path() / "truncated.json") << text.substr(0, text.size() / 2);
  std::string flipped = text;
  flipped[text.size() / 3] = static_cast<char>(flipped[text.size() / 3] ^ 4);
  std::ofstream(folder.path() / "flipped.json") << flipped;
  std::ofstream(folder.path() / "empty.json");
  const ReplayReport report = run();
  EXPECT_EQ(report.entries, 4);
  EXPECT_EQ(report.damaged, 3);
  EXPECT_EQ(report.as_expected, 1);
  EXPECT_EQ(report.exit(false), Exit::usage);
  for (const ReplayResult& result : results)
    EXPECT_EQ(result.outcome == Replayed::damaged,
              result.sentence.find(result.file.filename().string()) != std::string::npos);
}

TEST_F(Replay, AMissingSubjectIsNotRun) {
  fs::remove(file);
  entry.subject = "external:elsewhere";
  write_entry(entry, folder.path());
  const ReplayReport report = run();
  EXPECT_EQ(report.not_run, 1);
  EXPECT_EQ(report.exit(false), Exit::no_subject);
  EXPECT_EQ(report.exit(true), Exit::held);
}

TEST_F(Replay, AnEmptyFolderIsAUsageError) {
  fs::remove(file);
  EXPECT_EQ(run().exit(false), Exit::usage);
}

}  // namespace
}  // namespace attest::engine
