#include "engine/replay.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "engine/campaign.hpp"
#include "engine/file.hpp"
#include "engine/processor.hpp"
#include "fake_subject.hpp"
#include "subjects/builtin.hpp"
#include "temporary_folder.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<SubjectFactory> resolve(const Entry& entry) {
  auto factory = builtin_subject(entry.subject, {});
  if (!factory) throw Error(Exit::no_subject, entry.subject + " is not here");
  return factory;
}

class Replay : public testing::Test {
 protected:
  void SetUp() override {
    const auto fault = builtin_subject("fault:tail-included", {});
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
  const ReplayReport report = run([](const Entry&) { return builtin_subject("builtin:fused", {}); });
  EXPECT_EQ(report.mended, 1);
  EXPECT_EQ(report.exit(false), Exit::found);
}

// A pass on a processor without the instructions that showed the failure tells nothing; on one that has them all it is
// mended.
TEST_F(Replay, AFailureOfAnotherProcessorIsNotCalledMended) {
  const Resolve sound = [](const Entry&) { return builtin_subject("builtin:fused", {}); };
  entry.processor = processor() + " an_instruction_of_another_machine";
  write_entry(entry, folder.path());
  const ReplayReport elsewhere = run(sound);
  EXPECT_EQ(elsewhere.not_here, 1);
  EXPECT_EQ(elsewhere.mended, 0);
  EXPECT_EQ(elsewhere.exit(true), Exit::held);
  EXPECT_EQ(elsewhere.exit(false), Exit::no_subject);  // nothing else ran
  EXPECT_NE(results[0].sentence.find("an_instruction_of_another_machine"), std::string::npos) << results[0].sentence;
  EXPECT_EQ(run().as_expected, 1);  // it fails here too

  entry.processor = processor();
  write_entry(entry, folder.path());
  EXPECT_EQ(run(sound).mended, 1);
}

TEST(Processor, WordsThatAreMissingAreNamedInOrder) {
  EXPECT_EQ(lacking("x86_64 avx2 amx_bf16", "x86_64 fma avx2 avx512f"), "amx_bf16");
  EXPECT_EQ(lacking("aarch64 sve bf16", "x86_64 avx2"), "aarch64 sve bf16");
  EXPECT_EQ(lacking("", "x86_64"), "");
  EXPECT_EQ(lacking(processor(), processor()), "");
  EXPECT_TRUE(is_processor(processor()));
  EXPECT_FALSE(is_processor("x86_64\navx2"));
  EXPECT_FALSE(is_processor("../etc"));
}

TEST_F(Replay, UnderExpectPassAFailureIsUnexpectedUntilItIsMended) {
  const auto outcomes = [&](const Resolve& with) { return replay({folder.path()}, with, nullptr, {}, true); };
  const ReplayReport failing = outcomes(resolve);
  EXPECT_EQ(failing.unexpected, 1);
  EXPECT_EQ(failing.exit(false), Exit::found);
  const ReplayReport mended = outcomes([](const Entry&) { return builtin_subject("builtin:fused", {}); });
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

// An entry that a subject does not take is neither held nor broken: nothing was asked.
TEST_F(Replay, WhatASubjectDoesNotTakeIsNotRun) {
  const auto inner = builtin_subject("fault:tail-included", {});
  SubjectInfo short_rows = inner->info();
  short_rows.supports.d = {1000, 1024, 1};
  int calls = 0;
  const Resolve resolve_short = [&](const Entry&) {
    return std::make_unique<test::FakeFactory>(short_rows, [&]() -> test::Answer {
      return [&](const attest_attention&) {
        ++calls;
        return CallResult{};
      };
    });
  };
  const ReplayReport report = run(resolve_short);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(report.unsupported, 1);
  EXPECT_EQ(report.mended + report.unexpected + report.not_run, 0);
  EXPECT_NE(results[0].sentence.find("the subject takes d from 1000 to 1024"), std::string::npos)
      << results[0].sentence;
  EXPECT_EQ(report.exit(false), Exit::no_subject);  // nothing ran at all
  EXPECT_EQ(report.exit(true), Exit::held);

  const ReplayReport expected_to_pass = replay({folder.path()}, resolve_short, nullptr, {}, true);
  EXPECT_EQ(expected_to_pass.unsupported, 1);

  entry.subject = "builtin:fused";
  entry.problem = problem_from_text("lk=3 d=1000 values=normal:1");
  entry.contract = inner->info().contract(Format::f32);
  entry.expect = VerdictKind::pass;
  write_entry(entry, folder.path());
  const ReplayReport both = run([&](const Entry& e) -> std::unique_ptr<SubjectFactory> {
    return e.subject == "builtin:fused" ? builtin_subject(e.subject, {}) : resolve_short(e);
  });
  EXPECT_EQ(both.as_expected, 1);
  EXPECT_EQ(both.unsupported, 1);
  EXPECT_EQ(both.exit(false), Exit::held);  // calls that are not taken count for nothing
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
