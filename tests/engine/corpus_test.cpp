#include "engine/corpus.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "engine/file.hpp"
#include "engine/known.hpp"
#include "temporary_folder.hpp"

namespace attest::engine {
namespace {

namespace fs = std::filesystem;

Entry sample() {
  Entry entry;
  entry.subject = "fault:scale-twice";
  entry.subject_version = "0.1.0";
  attest::Problem problem = attest::problem_from_text(
      "b=1 hq=1 hkv=1 lq=1 lk=2 d=2 dv=1 dtype=f16 scale=0x1p-3 values=normal:1 seed=18446744073709551615");
  problem.edits.push_back({Edit::Tensor::q, {0, 0, 0, 1}, -0.5});
  entry.problem = problem;
  attest::Contract contract = contract_for(policy_for(Format::f16));
  contract.empty_row = EmptyRow::zero;
  contract.batch_invariant = BatchInvariance::bitwise;
  contract.arithmetic.exp_rel = 1e-4;
  entry.contract = contract;
  entry.policy_given = true;
  entry.property = "policy-bound";
  entry.with = {"guards"};
  entry.bucket = "policy-bound/fail/finite:fault:scale-twice:f16:none:none";
  entry.reference = "\"quoted\"\nand a newline";
  entry.reason = "caf\xc3\xa9";
  Evidence witness;
  witness.tensor = "out";
  witness.index = {0, 0, 0, 1};
  witness.got = std::numeric_limits<double>::quiet_NaN();
  witness.expected = 0.1;
  witness.lo = -std::numeric_limits<double>::infinity();
  witness.hi = 1e300;
  witness.ratio = std::numeric_limits<double>::infinity();
  witness.wrong = Wrong::nan;
  witness.note = "a note";
  entry.evidence = witness;
  entry.original = "op=attention b=4";
  entry.seed = 18446744073709551615u;
  entry.case_number = 12;
  entry.attest_version = "0.1.0";
  entry.shrink_calls = 42;
  entry.minimal = true;
  entry.neighbours = {"lk: 2 -> 1", "d: 2 -> 1"};
  return entry;
}

std::string refusal(const std::string& text) {
  try {
    entry_from_file_text(text, "some.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    const std::string sentence = error.what();
    EXPECT_TRUE(sentence.starts_with("some.json:")) << sentence;
    EXPECT_EQ(std::count(sentence.begin(), sentence.end(), '\n'), 0) << sentence;
    return sentence;
  }
  ADD_FAILURE() << "accepted: " << text.substr(0, 200);
  return {};
}

// The entry with one piece of its text replaced, and a digest that fits: a hostile author can do that.
std::string forged(const std::string& from, const std::string& to) {
  std::string text = to_file_text(sample());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const std::size_t tail = text.rfind("  \"digest\"");
  text.resize(tail);
  return text + "  \"digest\": \"" + hex64(digest_of(text)) + "\"\n}\n";
}

TEST(Corpus, RoundTripsEveryField) {
  const std::string text = to_file_text(sample());
  const Entry back = entry_from_file_text(text, "some.json");
  EXPECT_EQ(to_file_text(back), text);
  EXPECT_EQ(back.problem, sample().problem);
  EXPECT_EQ(back.contract, sample().contract);
  EXPECT_EQ(back.seed, sample().seed);
  EXPECT_TRUE(std::isnan(back.evidence->got));
}

// Laws that are gone: their entries are asked of the law that took their place.
TEST(Corpus, EntriesOfLawsThatAreGoneAreRefiled) {
  for (const char* law : {"aggregate-error", "statistical-bound"}) {
    Entry entry = sample();
    entry.property = law;
    entry.bucket = std::string(law) + "/fail/finite:fault:scale-twice:f16:none:none";
    const Entry read = entry_from_file_text(to_file_text(entry), "old.json");
    EXPECT_EQ(read.property, "ensemble-error");
    EXPECT_EQ(read.refiled, law);
    EXPECT_EQ(read.bucket, "ensemble-error/fail/finite:fault:scale-twice:f16:none:none");
  }
  EXPECT_TRUE(entry_from_file_text(to_file_text(sample()), "x.json").refiled.empty());
}

TEST(Corpus, ALogSumExpThatAnEarlierShrinkingAddedIsRefused) {
  const std::string text = to_file_text(sample());
  const std::string before = R"("origin": {)", tail = "  \"digest\": \"";
  std::string old = text.substr(0, text.find(tail));
  old.insert(old.find(before) + before.size(), "\n    \"lse_added\": true,");
  old += tail + hex64(digest_of(old)) + "\"\n}\n";
  try {
    entry_from_file_text(old, "old.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("old.json:"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("added a log-sum-exp"), std::string::npos) << error.what();
  }
}

TEST(Corpus, EveryFlippedBitIsNoticed) {
  const std::string text = to_file_text(sample());
  for (std::size_t i = 0; i < text.size(); ++i)
    for (const int bit : {0, 3, 5, 7}) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_THROW(entry_from_file_text(damaged, "some.json"), Error) << i;
    }
}

TEST(Corpus, EveryTruncationIsNoticed) {
  const std::string text = to_file_text(sample());
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_THROW(entry_from_file_text(text.substr(0, size), "some.json"), Error) << size;
  EXPECT_NE(refusal(text.substr(0, text.size() / 2)).find("truncated"), std::string::npos);
  EXPECT_NE(refusal(text + " ").find("digest"), std::string::npos);
}

TEST(Corpus, RefusalsNameTheReason) {
  EXPECT_NE(refusal(forged("\"format\": 1", "\"format\": 2")).find("version 2"), std::string::npos);
  EXPECT_NE(refusal(forged("\"format\": 1", "\"format\": -1")).find("format"), std::string::npos);
  EXPECT_NE(refusal(forged("\"lk\": 2", "\"lk\": 2000000000000")).find("lk"), std::string::npos);
  EXPECT_NE(refusal(forged("\"lk\": 2", "\"lk\": 1e999")).find("double"), std::string::npos);
  EXPECT_NE(refusal(forged("\"lk\": 2", "\"lk\": 2.5")).find("lk"), std::string::npos);
  EXPECT_NE(refusal(forged("\"lk\": 2", "\"lk\": 3")).find("not the same problem"), std::string::npos);
  EXPECT_NE(refusal(forged("\"lk\": 2", "\"lkk\": 2")).find("lkk"), std::string::npos);
  EXPECT_NE(refusal(forged("0x1p-3\",\n", "nan\",\n")).find("scale"), std::string::npos);
  EXPECT_NE(refusal(forged("\"policy\": \"f16\"", "\"policy\": \"f99\"")).find("f99"), std::string::npos);
  EXPECT_NE(refusal(forged("\"policy\": \"f16\"", "\"policy\": \"f32\"")).find("storage"), std::string::npos);
  EXPECT_NE(refusal(forged("\"verdict\": \"fail\"", "\"verdict\": \"maybe\"")).find("verdict"), std::string::npos);
  EXPECT_NE(refusal(forged("\"minimal\": true", "\"minimal\": 7")).find("minimal"), std::string::npos);
  refusal(forged("\"neighbours\": [", "\"neighbours\": [7, "));
  EXPECT_NE(refusal(forged("\"property\": \"policy-bound\"", "\"property\": \"wisdom\"")).find("wisdom"),
            std::string::npos);
  refusal("[]");
  refusal("7");
  refusal("null");
}

TEST(Corpus, ALineIsNamed) {
  const std::string sentence = refusal(forged("\"minimal\": true", "\"minimal\": 7"));
  const std::string text = to_file_text(sample());
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("\"minimal\"")), '\n');
  EXPECT_TRUE(sentence.starts_with("some.json:" + std::to_string(line) + ":")) << sentence;
}

TEST(Corpus, DeepNestingIsRefusedBeforeItHurts) {
  EXPECT_NE(refusal(std::string(100000, '[')).find("nested"), std::string::npos);
  std::string nested;
  for (int i = 0; i < 20000; ++i) nested += "{\"a\":";
  EXPECT_NE(refusal(nested).find("nested"), std::string::npos);
}

TEST(Corpus, APathAsSubjectIsRefused) {
  for (const char* path : {"./evil.so", "/lib/evil.so:x", "evil.py", "a/b:c", "evil.onnx", "..", "evil.so:name", ""})
    EXPECT_NE(refusal(forged("\"fault:scale-twice\"", '"' + std::string(path) + '"')).find("path"), std::string::npos)
        << path;
}

Entry external(const fs::path& file) {
  Entry entry = sample();
  entry.subject = "external:mine";
  entry.subject_file = file;
  entry.subject_name = "kernel";
  return entry;
}

TEST(Corpus, TheFileOfASubjectIsFoundFromWhereTheEntryLies) {
  const test::TemporaryFolder folder;
  const fs::path script = folder.path() / "my kernels" / "mine.py", corpus = folder.path() / "out" / "corpus";
  fs::create_directories(script.parent_path());
  std::ofstream(script) << "#";
  const fs::path file = write_entry(external(script), corpus);
  const std::string text = read_file(file, 1 << 20);
  EXPECT_NE(text.find(R"("subject_file": "../../../my kernels/mine.py")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("subject_name": "kernel")"), std::string::npos);
  const Entry back = read_entry(file);
  EXPECT_TRUE(fs::equivalent(back.subject_file, script)) << back.subject_file;
  EXPECT_EQ(back.subject_name, "kernel");
  // The entry written elsewhere names the same file.
  const fs::path elsewhere = write_entry(back, folder.path());
  EXPECT_TRUE(fs::equivalent(read_entry(elsewhere).subject_file, script));
  // Moved as a whole, they find each other.
  const fs::path moved = folder.path().string() + "-moved";
  fs::rename(folder.path(), moved);
  EXPECT_TRUE(fs::equivalent(read_entry(moved / fs::relative(file, folder.path())).subject_file,
                             moved / "my kernels" / "mine.py"));
  fs::rename(moved, folder.path());
}

TEST(Corpus, NoAbsolutePathIsWritten) {
  const test::TemporaryFolder folder;
  const Entry far = external("/usr/share/kernels/mine.py");
  EXPECT_EQ(read_file(write_entry(far, folder.path()), 1 << 20).find("/usr"), std::string::npos);
  EXPECT_EQ(to_file_text(far).find("/usr"), std::string::npos);
  EXPECT_NE(to_file_text(far).find(R"("subject_file": "mine.py")"), std::string::npos);
}

TEST(Corpus, NoFileOfThisMachineIsNamedInWhatASubjectSaid) {
  for (const auto& [said, written] : std::vector<std::pair<std::string, std::string>>{
           {"ValueError: no (at kernel.py:12, traceback in /tmp/x/traceback-1.txt)",
            "ValueError: no (at kernel.py:12)"},
           {"ValueError: no (traceback in /tmp/x/traceback-1.txt)", "ValueError: no"},
           {"it ended (more in /tmp/x/logs/kernel.log)", "it ended"},
           {"f(x) is (more or less) wrong", "f(x) is (more or less) wrong"}}) {
    Entry entry = sample();
    entry.reason = said;
    EXPECT_EQ(portable_entry(entry, "/somewhere").reason, written);
  }
}

TEST(Corpus, TheFileOfASubjectIsAPlainRelativePath) {
  const std::string at = R"("subject_version": "0.1.0",)";
  const auto with = [&](const std::string& file, const std::string& name = "kernel") {
    return forged(at, at + R"("subject_file": )" + file + R"(, "subject_name": ")" + name + "\",");
  };
  // The sample is a fault, which lies in no file.
  EXPECT_NE(refusal(with("\"mine.py\"")).find("external"), std::string::npos);
  for (const char* file : {"\"/etc/evil.py\"", "\"\"", "\"a/\"", "7", "\"a\\u001b[31m.py\"", "\"a\\u0000b.py\""})
    EXPECT_NE(refusal(with(file)).find("subject_file"), std::string::npos) << file;
}

TEST(Corpus, TheNameOfASubjectIsNoPartOfItsPath) {
  Entry entry = external("/tmp/mine.py");
  for (const char* name : {"a:b", "../../evil.so", ""}) {
    entry.subject_name = name;
    EXPECT_EQ(to_file_text(entry).find("subject_file"), std::string::npos) << name;
  }
  std::string text = to_file_text(external("/tmp/mine.py"));
  const std::string from = R"("subject_name": "kernel")";
  text.replace(text.find(from), from.size(), R"("subject_name": "x.so:y")");
  text.resize(text.rfind("  \"digest\""));
  EXPECT_NE(refusal(text + "  \"digest\": \"" + hex64(digest_of(text)) + "\"\n}\n").find("subject_name"),
            std::string::npos);
}

TEST(Corpus, FilesAreWrittenWholeUnderSafeNames) {
  const test::TemporaryFolder folder;
  const fs::path file = write_entry(sample(), folder.path());
  EXPECT_EQ(file.parent_path(), folder.path() / "fault_scale-twice");
  EXPECT_EQ(file.filename().string().find(':'), std::string::npos);
  EXPECT_EQ(read_entry(file).bucket, sample().bucket);
  EXPECT_EQ(write_entry(sample(), folder.path()), file);
  EXPECT_EQ(corpus_files({folder.path()}), std::vector<fs::path>{file});
  EXPECT_EQ(buckets_of(known_entries(folder.path())), std::set<std::string>{sample().bucket});
}

TEST(Corpus, WhatCannotBeReadOrWrittenIsNamed) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(read_entry(folder.path() / "missing.json"), Error);
  EXPECT_THROW(read_entry(folder.path()), Error);
  EXPECT_THROW(corpus_files({folder.path() / "missing"}), Error);
  if (::geteuid() != 0) {  // root may enter any folder
    fs::create_directory(folder.path() / "closed");
    fs::permissions(folder.path() / "closed", fs::perms::none);
    EXPECT_THROW(corpus_files({folder.path()}), Error);
    fs::permissions(folder.path() / "closed", fs::perms::owner_all);
  }
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_THROW(write_entry(sample(), folder.path() / "file"), Error);
}

}  // namespace
}  // namespace attest::engine
