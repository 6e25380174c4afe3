// guards and result-class: each way of misusing memory, and each class that cannot be.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/inputs.hpp"
#include "core/tensor.hpp"
#include "properties/trial.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

using test::verdict_of;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const char* const plain = "b=2 hq=2 hkv=1 lq=3 lk=4 d=2 dv=3 dtype=f32 lse=f32 values=normal:1 seed=3";

// attend(), and then something wrong.
test::Fake then(test::Kernel wrong) {
  return test::Fake([wrong = std::move(wrong)](const attest_attention& call) {
    test::attend(call);
    wrong(call);
  });
}

struct Misuse {
  const char* name;
  const char* problem;
  const char* tensor;
  const char* note;
  test::Kernel wrong;
};

TEST(Guards, FailOnEachMisuse) {
  const auto byte_at = [](const attest_tensor& t, std::ptrdiff_t offset) -> char& {
    return *(static_cast<char*>(attest_at(&t, 0, 0, 0, 0)) + offset);
  };
  const Misuse misuses[] = {
      {"before", plain, "out", "bytes before out", [&](const auto& a) { byte_at(a.out, -1) = 0; }},
      {"after", plain, "out", "bytes after out", [&](const auto& a) { byte_at(a.out, 2 * 2 * 3 * 3 * 4) = 0; }},
      {"gap", "b=1 hq=1 hkv=1 lq=2 lk=2 d=1 dv=3 dtype=f32 out_layout=padded_rows values=normal:1 seed=1", "out",
       "between the rows", [&](const auto& a) { byte_at(a.out, 3 * 4) = 0; }},
      {"copied from behind v", plain, "out", "bytes after out",
       [&](const auto& a) { byte_at(a.out, 2 * 2 * 3 * 3 * 4) = byte_at(a.v, 2 * 4 * 3 * 4); }},
      {"copied from behind lse", plain, "out", "bytes after out",
       [&](const auto& a) { std::copy_n(&byte_at(a.lse, 2 * 2 * 3 * 4), 16, &byte_at(a.out, 2 * 2 * 3 * 3 * 4)); }},
      {"after lse", plain, "lse", "bytes after lse", [&](const auto& a) { byte_at(a.lse, 2 * 2 * 3 * 4) = 0; }},
      {"input", plain, "v", "was modified", [](const auto& a) { store(a.v, 1, 0, 0, 0, 7); }},
      {"lengths", "b=2 hq=1 hkv=1 lq=1 lk=4 d=1 dv=1 dtype=f32 lengths=ragged values=normal:1 seed=1", "kv_lengths",
       "was modified", [](const auto& a) { store(a.kv_lengths, 1, 0, 0, 0, 0); }},
  };
  for (const Misuse& misuse : misuses) {
    test::Fake subject = then(misuse.wrong);
    const Verdict verdict = verdict_of("guards", misuse.problem, subject, test::promise(Format::f32));
    ASSERT_EQ(verdict.kind, VerdictKind::fail) << misuse.name;
    EXPECT_EQ(verdict.evidence->wrong, Wrong::memory) << misuse.name;
    EXPECT_EQ(verdict.evidence->tensor, misuse.tensor) << misuse.name;
    EXPECT_NE(verdict.evidence->note.find(misuse.note), std::string::npos) << verdict.evidence->note;
  }
}

// Large inputs are told by a hash and drawn again: what was changed shows, and later calls see what they should.
TEST(Guards, FailOnALargeInputThatIsModifiedAndPutItBack) {
  const Problem problem = problem_from_text("b=1 hq=1 hkv=1 lq=1 lk=65536 d=64 dv=1 dtype=f32 values=normal:1 seed=3");
  const Contract contract = test::promise(Format::f32);
  const Inputs before = materialise(problem);
  struct Change {
    Index first, second;
  };
  for (const auto [first, second] : {Change{0, 0}, {65535, 65535}, {1024, 1032}, {40000, 40001}}) {
    test::Fake subject = then([first = first, second = second](const attest_attention& call) {
      store(call.k, 0, 0, first, 63, -load(call.k, 0, 0, first, 63));
      store(call.k, 0, 0, second, 62, -load(call.k, 0, 0, second, 62));
    });
    properties::Trial trial(problem, contract, subject);
    const auto& violation = trial.base().violation;
    ASSERT_TRUE(violation) << first;
    EXPECT_EQ(violation->note, "the input k was modified");
    EXPECT_TRUE(std::ranges::equal(trial.inputs().k.span_bytes(), before.k.span_bytes())) << first;
  }
  test::Fake quiet = then([](const attest_attention&) {});
  EXPECT_FALSE(properties::Trial(problem, contract, quiet).base().violation);
}

TEST(Guards, FailOnAnElementThatIsNeverWritten) {
  test::Fake subject([](const attest_attention& call) {
    attest_attention shorter = call;
    std::int64_t shape[] = {call.q.shape[0], call.q.shape[1], call.q.shape[2] - 1, call.q.shape[3]};
    shorter.q.shape = shape;
    test::attend(shorter);
  });
  const Verdict verdict = verdict_of("guards", plain, subject, test::promise(Format::f32));
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_EQ(verdict.evidence->index, (std::array<Index, 4>{0, 0, 2, 0}));
}

TEST(Guards, PassForAKernelThatKeepsToItsTensors) {
  test::Fake subject([](const attest_attention& call) { test::attend(call); });
  for (const char* layout : {"bhsd", "bshd", "padded_rows", "odd_base", "spaced", "transposed"})
    EXPECT_EQ(
        verdict_of("guards", std::string(plain) + " out_layout=" + layout, subject, test::promise(Format::f32)).kind,
        VerdictKind::pass);
}

TEST(Guards, PassForAKernelThatWritesItsOwnNan) {
  test::Fake subject = then([](const attest_attention& call) { store(call.out, 0, 0, 0, 0, nan); });
  EXPECT_EQ(verdict_of("guards", plain, subject, test::promise(Format::f32)).kind, VerdictKind::pass);
}

TEST(ResultClass, FailsOnNanAndInfinity) {
  for (const double value : {nan, infinity, -infinity})
    for (const bool in_lse : {false, true}) {
      test::Fake subject =
          then([=](const attest_attention& call) { store(in_lse ? call.lse : call.out, 1, 0, 2, 0, value); });
      const Verdict verdict = verdict_of("result-class", plain, subject, test::promise(Format::f32));
      ASSERT_EQ(verdict.kind, VerdictKind::fail);
      EXPECT_EQ(verdict.evidence->tensor, in_lse ? "lse" : "out");
      EXPECT_EQ(verdict.evidence->wrong, std::isnan(value) ? Wrong::nan : Wrong::infinity);
      EXPECT_EQ(verdict.evidence->index, (std::array<Index, 4>{1, 0, 2, 0}));
    }
}

TEST(ResultClass, SeesRowsThatTheBoundDoesNotSample) {
  test::Fake subject = then([](const attest_attention& call) { store(call.out, 1, 0, 1, 0, nan); });
  const std::string problem = std::string(plain) + " rows=1";
  EXPECT_EQ(verdict_of("policy-bound", problem, subject, test::promise(Format::f32)).kind, VerdictKind::pass);
  EXPECT_EQ(verdict_of("result-class", problem, subject, test::promise(Format::f32)).kind, VerdictKind::fail);
}

TEST(ResultClass, PermitsWhatTheContractPermits) {
  const char* const empty = "b=1 hq=1 hkv=1 lq=2 lk=2 d=1 dv=1 dtype=f32 keep=closed lse=f32 values=normal:1 seed=1";
  test::Fake gives_nan = then([](const attest_attention& call) {
    for (Index i = 0; i < 2; ++i) store(call.out, 0, 0, i, 0, nan);
  });
  Contract contract = test::promise(Format::f32);
  EXPECT_EQ(verdict_of("result-class", empty, gives_nan, contract).kind, VerdictKind::fail);
  for (const EmptyRow rule : {EmptyRow::nan, EmptyRow::unspecified}) {
    contract.empty_row = rule;
    EXPECT_EQ(verdict_of("result-class", empty, gives_nan, contract).kind, VerdictKind::pass);
  }
  // f16: scores past 65504 are infinite where the policy forms them in f16, and the softmax of two infinities is NaN.
  const char* const large = "b=1 hq=1 hkv=1 lq=1 lk=2 d=4 dv=1 dtype=f16 scale=0x1p+0 values=constant:200 seed=1";
  test::Fake overflows = then([](const attest_attention& call) { store(call.out, 0, 0, 0, 0, nan); });
  EXPECT_EQ(verdict_of("result-class", large, overflows, contract_for(policy_from_text("f16-scores16"))).kind,
            VerdictKind::pass);
  EXPECT_EQ(verdict_of("result-class", large, overflows, contract_for(policy_from_text("f16"))).kind,
            VerdictKind::fail);
}

}  // namespace
}  // namespace attest
