// The reproducers of this repository, replayed through the engine.
#include <gtest/gtest.h>

#include <set>

#include "core/error.hpp"
#include "engine/replay.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine {
namespace {

const std::filesystem::path corpus = std::filesystem::path(ATTEST_SOURCE_DIR) / "corpus";

std::unique_ptr<SubjectFactory> resolve(const Entry& entry) {
  const std::string policy = entry.policy_given ? to_text(policy_of(entry.contract)) : std::string();
  auto factory = builtin_subject(entry.subject, policy);
  if (!factory) throw Error(Exit::no_subject, entry.subject + " is not built in");
  return factory;
}

TEST(StoredCorpus, EveryEntryGivesWhatItExpects) {
  const auto peer = builtin_subject("builtin:explicit", {});
  const ReplayReport report = replay({corpus}, resolve, peer.get(), [](const ReplayResult& result) {
    // Entries of subjects that are not built in need their packages; `attest replay` runs those.
    if (result.outcome != Replayed::not_run) {
      EXPECT_EQ(name(result.outcome), "as_expected") << result.file << ": " << result.sentence;
    }
  });
  EXPECT_GT(report.as_expected, 0);
  EXPECT_EQ(report.damaged + report.unexpected + report.mended, 0);
}

TEST(StoredCorpus, EveryFaultHasAMinimalReproducer) {
  std::set<std::string> covered;
  for (const auto& file : corpus_files({corpus})) {
    const Entry entry = read_entry(file);
    EXPECT_TRUE(entry.minimal) << file;
    covered.insert(entry.subject);
  }
  for (const ListedSubject& fault : fault_subjects()) EXPECT_TRUE(covered.contains(fault.name)) << fault.name;
}

}  // namespace
}  // namespace attest::engine
