// The laws with a bound: each must fail on a fake that is wrong in its way, and not on conforming fakes whose bits
// differ.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

using test::verdict_of;

const char* const plain = "b=3 hq=4 hkv=2 lq=5 lk=7 d=4 dv=3 dtype=f32 scale=0x1.8p-2 lse=f32 values=normal:1 seed=11";
const char* const laws[] = {"policy-bound", "fused-equals-explicit", "batch-bounded", "layout", "scale-moved"};

Contract no_claims(Format dtype) {
  Contract contract = contract_for(policy_for(dtype));
  contract.empty_row = EmptyRow::zero;
  return contract;
}

Verdict run(std::string_view law, const std::string& problem, test::Kernel kernel) {
  test::Fake subject(std::move(kernel));
  test::Fake peer([](const attest_attention& call) { test::attend(call); }, "explicit");
  return verdict_of(law, problem, subject, no_claims(Format::f32), &peer);
}

void one_percent(const attest_attention& call) {
  attest_attention wrong = call;
  wrong.scale *= 1.01;
  test::attend(wrong);
}

TEST(PolicyBound, FailsOnAScaleThatIsOnePercentOff) {
  const Verdict verdict = run("policy-bound", plain, one_percent);
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_GT(verdict.evidence->ratio, 1);
}

TEST(PolicyBound, FailsOnAWrongLogSumExp) {
  const Verdict verdict = run("policy-bound", plain, [](const attest_attention& call) {
    test::attend(call);
    store(call.lse, 1, 1, 1, 0, load(call.lse, 1, 1, 1) / std::log(2.0));  // in base 2
  });
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_EQ(verdict.evidence->tensor, "lse");
}

TEST(FusedEqualsExplicit, FailsAndSaysHowFarEachIsOff) {
  const Verdict verdict = run("fused-equals-explicit", plain, one_percent);
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_GT(verdict.evidence->ratio, 1);
  EXPECT_LT(verdict.evidence->lo, verdict.evidence->hi);
  EXPECT_NE(verdict.evidence->note.find("explicit by"), std::string::npos) << verdict.evidence->note;
}

TEST(FusedEqualsExplicit, DoesNotBlameTheSubjectForItsPeer) {
  test::Fake subject([](const attest_attention& call) { test::attend(call); });
  test::Fake peer(one_percent, "explicit");
  EXPECT_EQ(verdict_of("fused-equals-explicit", plain, subject, no_claims(Format::f32), &peer).reason,
            "the explicit kernel does not keep this contract");
}

TEST(FusedEqualsExplicit, NeedsTwoKernels) {
  test::Fake subject([](const attest_attention& call) { test::attend(call); });
  EXPECT_EQ(verdict_of("fused-equals-explicit", plain, subject, no_claims(Format::f32)).reason,
            "no explicit kernel beside it");
  test::Fake twin([](const attest_attention& call) { test::attend(call); });
  EXPECT_EQ(verdict_of("fused-equals-explicit", plain, subject, no_claims(Format::f32), &twin).reason,
            "the subject is that explicit kernel");
}

TEST(BatchBounded, FailsWhenTheBatchTakesAnotherPath) {
  const test::Kernel path = [](const attest_attention& call) {
    if (call.q.shape[0] > 1) return one_percent(call);
    test::attend(call);
  };
  for (const char* problem : {plain, "b=1 hq=1 hkv=1 lq=2 lk=3 d=2 dv=2 dtype=f32 values=normal:1 seed=1"})
    EXPECT_EQ(run("batch-bounded", problem, path).kind, VerdictKind::fail) << problem;
}

TEST(BatchBounded, SparesAKernelThatIsWrongAlikeInEveryBatch) {
  EXPECT_EQ(run("batch-bounded", plain, one_percent).kind, VerdictKind::pass);
}

TEST(BatchBounded, LeavesClaimsOfEqualNumbersToTheExactLaw) {
  test::Fake subject([](const attest_attention& call) { test::attend(call); });
  EXPECT_EQ(verdict_of("batch-bounded", plain, subject, test::promise(Format::f32)).reason,
            "batch-bitwise asks for more");
}

// Reads and writes as if everything were contiguous.
void ignore_strides(const attest_attention& call) {
  attest_attention flat = call;
  std::vector<std::vector<std::int64_t>> strides;
  strides.reserve(4);
  for (attest_tensor* t : {&flat.q, &flat.k, &flat.v, &flat.out}) {
    strides.push_back({t->shape[1] * t->shape[2] * t->shape[3], t->shape[2] * t->shape[3], t->shape[3], 1});
    t->strides = strides.back().data();
  }
  test::attend(flat);
}

TEST(LayoutLaw, FailsWhenStridesAreIgnored) {
  for (const char* layouts : {"q_layout=bshd", "k_layout=bshd", "v_layout=transposed", "k_layout=padded_rows"})
    EXPECT_EQ(run("layout", std::string(plain) + " " + layouts, ignore_strides).kind, VerdictKind::fail) << layouts;
  // A contiguous problem is moved elsewhere; which layout is drawn.
  int failed = 0;
  for (int seed = 0; seed < 20; ++seed)
    failed += run("layout", "b=2 hq=4 hkv=2 lq=5 lk=7 d=4 dv=3 dtype=f32 values=normal:1 seed=" + std::to_string(seed),
                  ignore_strides)
                  .kind == VerdictKind::fail;
  EXPECT_GT(failed, 5);
}

TEST(LayoutLaw, AsksOnlyForLayoutsThatTheSubjectTakes) {
  test::Fake subject([](const attest_attention& call) {
    if (call.q.strides[3] != 1 || call.out.strides[3] != 1) throw std::logic_error("the last axis must be contiguous");
    test::attend(call);
  });
  subject.edit().supports.strides = Supports::Strides::last_dim_contiguous;
  for (int seed = 0; seed < 20; ++seed)
    EXPECT_EQ(
        verdict_of("layout", "b=2 hq=4 hkv=2 lq=5 lk=7 d=4 dv=3 dtype=f32 values=normal:1 seed=" + std::to_string(seed),
                   subject, no_claims(Format::f32))
            .kind,
        VerdictKind::pass);
  subject.edit().supports.strides = Supports::Strides::contiguous;
  subject.edit().supports.alignment = 16;
  EXPECT_EQ(verdict_of("layout", "b=2 hq=4 hkv=2 lq=5 lk=7 d=4 dv=3 dtype=f32 values=normal:1 seed=1", subject,
                       no_claims(Format::f32))
                .reason,
            "the subject takes one layout");
}

TEST(ScaleMoved, FailsWhenTheScaleLandsElsewhere) {
  const test::Kernel on_value = [](const attest_attention& call) {
    if (call.scale != 1) return test::attend(call);
    attest_attention wrong = call;
    wrong.scale = 0.5;  // a default in place of an explicit 1
    test::attend(wrong);
  };
  const Verdict verdict = run("scale-moved", plain, on_value);
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_NE(verdict.evidence->note.find("folded into q"), std::string::npos);
}

TEST(ScaleMoved, SkipsWithAReason) {
  EXPECT_EQ(
      run("scale-moved", "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 scale=0x1p+0 values=normal:1 seed=1", one_percent)
          .reason,
      "the scale is 1");
  EXPECT_EQ(run("scale-moved", "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 scale=0x1p+127 values=constant:4 seed=1",
                one_percent)
                .reason,
            "q times the scale overflows");
}

TEST(BoundLaws, HoldForKernelsWhoseBitsDiffer) {
  // Another tiling for every batch size, layout and scale: each result conforms, no two are equal.
  const test::Kernel moody = [](const attest_attention& call) {
    const auto key = static_cast<Index>(call.q.shape[0] + call.q.strides[2] + call.k.strides[2] + (call.scale == 1));
    if (key % 3 == 0) return test::attend(call);
    test::attend_tiled(call, 1 + key % 5, key % 3 == 1);
  };
  for (const std::string_view law : laws)
    for (const char* dtype : {"f32", "f16", "bf16"})
      for (const char* options :
           {"", " causal=1 k_layout=bshd", " keep=dense out_layout=spaced",
            " q_layout=broadcast_heads v_layout=transposed", " bias=alibi lengths=ragged mask_layout=odd_base",
            " softcap=0x1p+3 keep=some_empty"}) {
        const std::string problem =
            std::string("b=3 hq=4 hkv=2 lq=5 lk=7 d=4 dv=3 lse=f32 values=normal:1 seed=11 dtype=") + dtype + options;
        test::Fake subject(moody), peer([](const attest_attention&call) { test::attend(call); }, "explicit");
        const Verdict verdict = verdict_of(law, problem, subject, no_claims(*format_from_name(dtype)), &peer);
        EXPECT_EQ(verdict.kind, VerdictKind::pass) << law << " " << problem << " " << verdict.reason;
        EXPECT_GT(verdict.counts.judged, 0);
      }
}

}  // namespace
}  // namespace attest
