// Captured activations under shrinking and in the corpus.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/captured.hpp"
#include "core/error.hpp"
#include "core/inputs.hpp"
#include "engine/corpus.hpp"
#include "engine/file.hpp"
#include "engine/shrink/shrink.hpp"
#include "ops/attention/parts.hpp"
#include "tests/core/npz_file.hpp"
#include "tests/engine/temporary_folder.hpp"

namespace attest::engine {
namespace {

using attest::Problem;
using attest::problem_from_text;
using ops::of_attention::literal;

constexpr double wanted = 1000 + (3 * 20 + 11) * 8 + 5;  // k[0,3,11,5] of the file, and of nothing else

class CapturedActivations : public testing::Test {
 protected:
  CapturedActivations() : path((folder.path() / "act.npz").string()) {
    attest::test::write_npz(path, {{"q", {2, 4, 9, 8}, 0}, {"k", {2, 4, 20, 8}, 1000}, {"v", {2, 4, 20, 6}, 4000}});
    problem = problem_from_text("values=file:" + path);
  }
  engine::test::TemporaryFolder folder;
  std::string path;
  Problem problem;
};

bool holds_wanted(const Problem& candidate) {
  const Inputs inputs = materialise(candidate);
  const auto n = inputs.k.shape();
  for (Index b = 0; b < n[0]; ++b)
    for (Index h = 0; h < n[1]; ++h)
      for (Index i = 0; i < n[2]; ++i)
        for (Index c = 0; c < n[3]; ++c)
          if (inputs.k.at(b, h, i, c) == wanted) return true;
  return false;
}

Shrunk shrink_where(const Problem& from, const std::function<bool(const Problem&)>& fails) {
  const auto verdict = [] {
    Verdict failure;
    failure.kind = VerdictKind::fail;
    failure.evidence.emplace();
    failure.evidence->tensor = "out";
    failure.evidence->index = {0, 3, 0, 0};
    return failure;
  };
  const Try attempt = [&](const ops::Problem& candidate) {
    return Trialled{fails(candidate.as<Problem>()) ? std::optional(verdict()) : std::nullopt, 1};
  };
  return shrink(from, verdict(), attempt, {{}, {Format::f32}, {}}, {});
}

TEST_F(CapturedActivations, ShrinkToALiteralProblemWithoutTheFile) {
  const Shrunk shrunk = shrink_where(problem, holds_wanted);
  EXPECT_EQ(shrunk.minimal.as<Problem>().values, Values::constant) << to_text(shrunk.minimal);
  EXPECT_EQ(shrunk.minimal.as<Problem>().values_file, "");
  EXPECT_EQ(to_text(shrunk.minimal).find("act.npz"), std::string::npos);
  EXPECT_TRUE(holds_wanted(shrunk.minimal.as<Problem>()));
  EXPECT_EQ(shrunk.minimal.as<Problem>().edits.size(), 1u) << to_text(shrunk.minimal);
}

TEST_F(CapturedActivations, GiveWayToSimplerValuesWhereTheseFailAsWell) {
  const Shrunk shrunk = shrink_where(problem, [](const Problem& candidate) { return candidate.lk >= 2; });
  EXPECT_EQ(to_text(shrunk.minimal).find("file:"), std::string::npos) << to_text(shrunk.minimal);
  EXPECT_TRUE(shrunk.minimal.as<Problem>().edits.empty());
}

TEST_F(CapturedActivations, AreTheSameTensorsWhenLiteral) {
  for (const char* layouts : {"", " q_layout=transposed k_layout=broadcast_heads v_layout=broadcast_rows"}) {
    const Problem slice =
        problem_from_text("values=file:" + path + " b=1 hq=2 hkv=2 lq=3 lk=4 d=2 dv=2 hq0=1 hkv0=1 lk0=9" + layouts);
    const auto plain = literal(slice, 4096);
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->values_file, "");
    const Inputs a = materialise(slice), b = materialise(*plain);
    for (const auto& [x, y] : {std::pair{&a.q, &b.q}, {&a.k, &b.k}, {&a.v, &b.v}})
      EXPECT_TRUE(std::ranges::equal(x->span_bytes(), y->span_bytes())) << to_text(*plain);
    EXPECT_FALSE(literal(slice, 10));
  }
}

Entry entry_of(const Problem& problem) {
  Entry entry;
  entry.subject = "builtin:fused";
  entry.problem = problem;
  entry.contract = contract_for(policy_for(problem.dtype));
  entry.property = "policy-bound";
  entry.bucket = "some-bucket";
  return entry;
}

TEST_F(CapturedActivations, OfASmallEntryAreWrittenAsLiterals) {
  Problem slice = problem;
  slice.b = slice.hq = slice.hkv = slice.lq = 1;
  const auto file = write_entry(entry_of(slice), folder.path() / "corpus");
  const Entry back = read_entry(file);
  EXPECT_EQ(back.problem.as<Problem>().values_file, "");
  EXPECT_TRUE(
      std::ranges::equal(materialise(back.problem.as<Problem>()).k.span_bytes(), materialise(slice).k.span_bytes()));
}

TEST_F(CapturedActivations, OfALargeEntryLieBesideIt) {
  const std::string big = (folder.path() / "big.npz").string();
  attest::test::write_npz(big, {{"q", {1, 1, 100, 32}, 0}, {"k", {1, 1, 100, 32}, 1}, {"v", {1, 1, 100, 32}, 2}});
  const Entry entry = entry_of(problem_from_text("values=file:" + big));
  const auto corpus = folder.path() / "my corpus";  // blanks are the folder's affair
  const auto file = write_entry(entry, corpus);
  const auto beside = file.parent_path() / "big.npz";
  EXPECT_EQ(read_entry(file).problem.as<Problem>().values_file, beside.string());
  EXPECT_EQ(read_file(file, 1 << 20).find(folder.path().string()), std::string::npos)
      << "a path is nobody else's business";
  // The entry that was read is written to the same file.
  EXPECT_EQ(write_entry(read_entry(file), corpus), file);
  // Another file of that name there is not overwritten.
  write_file(beside, "something else");
  EXPECT_THROW(write_entry(entry, corpus), Error);
  std::filesystem::remove(beside);
  write_entry(entry, folder.path() / "elsewhere");
  const auto alone = folder.path() / "alone" / "entry.json";  // without the file that should lie beside it
  std::filesystem::create_directory(alone.parent_path());
  std::filesystem::rename(file, alone);
  EXPECT_THROW(read_entry(alone), Error);
  std::filesystem::copy(big, alone.parent_path());
  EXPECT_NO_THROW(read_entry(alone));
}

}  // namespace
}  // namespace attest::engine
