// Failures of models that a corpus tells, of models and of operators that adapters ask alone.
#include "models/known.hpp"

#include <gtest/gtest.h>

#include "engine/corpus.hpp"
#include "models/campaign.hpp"
#include "tests/engine/temporary_folder.hpp"
#include "tests/graph/draw.hpp"
#include "tests/models/planted.hpp"

namespace attest::models {
namespace {

using test::Planted;

// A failure of a law on y, the output of a.onnx.
Entry failure(const std::string& law, const std::string& what) {
  Entry entry;
  entry.runtime = "onnxruntime";
  entry.law = law;
  entry.key = law + "/fail/" + what;
  entry.model = "a.onnx";
  entry.model_digest = "1";
  entry.tensor = "y";
  return entry;
}

class Known : public ::testing::Test {
 protected:
  Summary run(const std::string& fault, const std::string& model = "encoder") {
    part = part_of_model(graph::test::model(model));
    subjects.clear();
    subjects.push_back({std::make_unique<Planted>(test::fault(fault).plant), "planted", {}, {"faulty"}});
    options.model = model + ".onnx";
    options.cases = 12;
    options.largest = 128;
    options.corpus = corpus.path();
    return run_campaign(part, subjects, options, {});
  }

  engine::test::TemporaryFolder corpus;
  Part part;
  std::vector<Subject> subjects;
  CampaignOptions options;
};

TEST_F(Known, FailuresEndAndFailNothing) {
  const Summary first = run("tanh-for-erf");
  ASSERT_EQ(first.findings.size(), 1u);
  EXPECT_EQ(first.findings[0].known_as, "");
  EXPECT_EQ(first.exit(), Exit::found);
  options.known = known_failures(corpus.path());
  options.continue_after_failure = false;
  const Summary again = run("tanh-for-erf");
  ASSERT_EQ(again.findings.size(), 1u);
  EXPECT_EQ(again.findings[0].known_as, first.findings[0].reproducer.stem().string());
  EXPECT_EQ(again.cases, 12u);
  EXPECT_EQ(again.exit(), Exit::held);
  const Summary another = run("scale-missing");
  ASSERT_FALSE(another.findings.empty());
  EXPECT_EQ(another.findings[0].known_as, "");
  EXPECT_EQ(another.exit(), Exit::found);
}

// Failures of other models are told by the operators of their segments.
TEST_F(Known, ByOperatorsRuntimeAndWhatHappened) {
  Entry known = failure("spread", "finite");
  known.segment = {"s (MatMul)", "y (Mul)"};
  const std::string name = write_entry(known, {}, corpus.path()).stem().string();
  Entry mended = known;
  mended.expect = "pass";
  mended.problem = "size.n=1";
  write_entry(mended, {}, corpus.path());
  const std::vector<KnownFailure> all = known_failures(corpus.path());
  const auto told = [&](const std::function<void(Entry&)>& change) {
    Entry seen = known;
    seen.model_digest = "2";
    seen.segment = {"scores (MatMul)", "scaled (Mul)"};
    seen.tensor = "scaled";
    change(seen);
    return known_as(all, seen).name;
  };
  EXPECT_EQ(all.size(), 1u);
  EXPECT_EQ(told([](Entry&) {}), name);
  EXPECT_EQ(told([](Entry& seen) { seen.law = "levels-agree", seen.key = "levels-agree/fail/finite"; }), name);
  EXPECT_EQ(told([](Entry& seen) { seen.key = "spread/fail/nonfinite"; }), "");
  EXPECT_EQ(told([](Entry& seen) { seen.runtime = "openvino"; }), "");
  EXPECT_EQ(told([](Entry& seen) { seen.segment = {"y (Mul)", "s (MatMul)"}; }), "");
  EXPECT_EQ(told([](Entry& seen) { seen.segment.clear(); }), "");
}

// Without a segment it is the same model, law and tensor, or another failure.
TEST_F(Known, WithoutASegmentInItsModelAlone) {
  const Entry known = failure("threads", "bits");
  write_entry(known, {}, corpus.path());
  const std::vector<KnownFailure> all = known_failures(corpus.path());
  EXPECT_NE(known_as(all, known).name, "");
  for (const auto change : {+[](Entry& seen) { seen.model_digest = "2"; }, +[](Entry& seen) { seen.tensor = "z"; },
                            +[](Entry& seen) { seen.law = "repeat"; }}) {
    Entry seen = known;
    change(seen);
    EXPECT_EQ(known_as(all, seen).name, "");
  }
}

TEST_F(Known, AWaiverThatIsOverTellsNothingAndIsNamed) {
  const Entry known = failure("threads", "bits");
  write_entry(known, {}, corpus.path());
  const engine::Waiver open{"TT-1", "2999-12-31", false}, over{"TT-2", "2000-01-01", true};
  std::vector<KnownFailure> all = known_failures(corpus.path(), over);
  EXPECT_EQ(known_as(all, known).name, "");
  EXPECT_EQ(known_as(all, known).waivers, std::vector{over});
  for (const KnownFailure& one : known_failures(corpus.path(), open)) all.push_back(one);
  EXPECT_NE(known_as(all, known).name, "");
  EXPECT_EQ(known_as(all, known).waivers, (std::vector{over, open}));
  Entry other = known;
  other.tensor = "z";
  EXPECT_TRUE(known_as(all, other).waivers.empty());
}

TEST_F(Known, ErrorsOfOperatorsThatAdaptersAskAlone) {
  const std::vector<KnownFailure> all = known_failures(std::filesystem::path(ATTEST_SOURCE_DIR) / "docs" / "findings");
  Entry seen;
  seen.runtime = "onnxruntime";
  seen.key = "spread/error/onnxruntime-inconsistent";
  seen.reason = "onnxruntime: inconsistent q_sequence_length (between attn_mask and Q)";
  seen.segment = {"context (Attention)"};
  EXPECT_EQ(known_as(all, seen).name, "ort-attention-1");
  seen.segment = {"context (MultiHeadAttention)"};
  EXPECT_EQ(known_as(all, seen).name, "");
  seen.segment = {"context (Attention)"};
  seen.reason = "onnxruntime: another sentence";
  EXPECT_EQ(known_as(all, seen).name, "");
  seen.key = "spread/fail/finite";  // of which defect wrong numbers are the operator does not tell
  EXPECT_EQ(known_as(all, seen).name, "");
}

}  // namespace
}  // namespace attest::models
