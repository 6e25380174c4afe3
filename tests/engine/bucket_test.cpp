#include "engine/bucket.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/known.hpp"
#include "engine/triage.hpp"

namespace attest::engine {
namespace {

using attest::Policy;

Verdict failing(Wrong wrong) {
  Evidence evidence;
  evidence.wrong = wrong;
  return Verdict::fail(evidence);
}

TEST(Key, TellsClassesOfWrongValuesApart) {
  EXPECT_EQ(key_of("policy-bound", failing(Wrong::nan)), key_of("policy-bound", failing(Wrong::infinity)));
  EXPECT_NE(key_of("policy-bound", failing(Wrong::nan)), key_of("policy-bound", failing(Wrong::finite)));
  EXPECT_NE(key_of("guards", failing(Wrong::finite)), key_of("policy-bound", failing(Wrong::finite)));
  EXPECT_NE(key_of("guards", Verdict{VerdictKind::crash, "signal 11", {}, {}}),
            key_of("guards", Verdict{VerdictKind::timeout, "signal 11", {}, {}}));
}

TEST(Key, MessagesOfOneCauseAgree) {
  EXPECT_EQ(message_class("Non-zero status 2: shape {1,2,3} at 0x7ffe12"),
            message_class("Non-zero status 7: shape {4,5,60} at 0x55aa"));
  EXPECT_EQ(message_class("cannot open 'a b.txt' now"), message_class("cannot open 'c.txt' now"));
  EXPECT_NE(message_class("killed by SIGSEGV"), message_class("killed by SIGFPE"));
  EXPECT_NE(message_class("inconsistent q_length (between mask and q)"),
            message_class("inconsistent total_length (between mask and q)"));
  EXPECT_EQ(message_class("12 34"), "none");
  EXPECT_EQ(message_class("ValueError: no (at mine.py:12, traceback in out/logs/a.txt)"),
            message_class("ValueError: no"));
  EXPECT_NE(message_class("ValueError: no (not here)"), message_class("ValueError: no"));
  EXPECT_LE(message_class(std::string(5000, 'x') + " and more").size(), 48u);
}

TEST(Bucket, NamesPredicatesAndNeverShapes) {
  const FailureKey key{"policy-bound", VerdictKind::fail, "finite"};
  const auto bucket = [&](const char* text) { return bucket_of(key, "fault:x", Policy(), problem_from_text(text)); };
  const std::string plain = bucket("b=1 hq=1 hkv=1 lq=1 lk=2 d=2 dv=1");
  EXPECT_EQ(plain, "policy-bound/fail/finite:fault:x:f32:none:none");
  EXPECT_EQ(plain, bucket("b=1 hq=1 hkv=1 lq=1 lk=3 d=5 dv=2 seed=77"));
  EXPECT_EQ(bucket("b=2 hq=4 hkv=2 lq=2 lk=3 causal=1 keep=half k_layout=bshd"),
            "policy-bound/fail/finite:fault:x:f32:causal+keep:batch+grouped+heads+lq<lk+strided-k");
}

TEST(Known, IsADefectUnderWhateverLaw) {
  const std::set<std::string> known{"policy-bound/fail/finite:fault:x:f32:causal:none",
                                    "guards/error/no-such-plan:fault:x:f32:none:none"};
  for (const char* bucket :
       {"policy-bound/fail/finite:fault:x:f32:causal:none", "single-key/fail/finite:fault:x:f32:causal:none",
        "value-linearity/fail/nonfinite:fault:x:f32:causal:none", "layout/error/no-such-plan:fault:x:f32:none:none"})
    EXPECT_TRUE(is_known(known, bucket)) << bucket;
  for (const char* bucket :
       {"policy-bound/fail/finite:fault:x:f32:causal:scale=0", "policy-bound/fail/finite:fault:x:f16:causal:none",
        "policy-bound/fail/finite:fault:y:f32:causal:none", "guards/fail/memory:fault:x:f32:causal:none",
        "guards/crash/killed:fault:x:f32:causal:none", "guards/error/no-memory:fault:x:f32:none:none",
        "policy-bound/flaky/finite:fault:x:f32:causal:none"})
    EXPECT_FALSE(is_known(known, bucket)) << bucket;
}

// Signatures tell whose a failure is if nobody shrinks it.
TEST(Signature, TellsApartWhatBucketsTellOfTheScore) {
  const FailureKey key{"policy-bound", VerdictKind::fail, "finite"};
  const auto signature = [&](const std::string& more) {
    return signature_of(key, problem_from_text("b=1 hq=1 hkv=1 lq=3 lk=4 d=2 dv=2 causal=1 " + more));
  };
  const std::string plain = signature("");
  for (const char* same : {"scale=0.125", "scale=2", "seed=5", "values=wide"})
    EXPECT_EQ(signature(same), plain) << same;
  const std::set<std::string> apart{plain, signature("scale=0"), signature("scale=-1"), signature("softcap=30"),
                                    signature("scale=0 softcap=30")};
  EXPECT_EQ(apart.size(), 5u);
}

TEST(Bucket, PathsBecomePortableNames) {
  EXPECT_EQ(portable_subject("builtin:fused"), "builtin:fused");
  EXPECT_EQ(portable_subject("onnxruntime:MultiHeadAttention"), "onnxruntime:MultiHeadAttention");
  EXPECT_EQ(portable_subject("./plugin.so:mine"), "external:mine");
  EXPECT_EQ(portable_subject("/tmp/a:b/plugin.so"), "external:plugin");
  EXPECT_EQ(portable_subject("plugin.so:mine"), "external:mine");
  EXPECT_EQ(portable_subject("kernel.py"), "external:kernel");
  EXPECT_EQ(portable_subject("external:mine"), "external:mine");
}

TEST(Triage, ThreeOfASignatureAndOneInFifty) {
  const FailureKey key{"policy-bound", VerdictKind::fail, "finite"};
  Triage triage;
  int shrunk = 0;
  for (int i = 0; i < 103; ++i) shrunk += triage.ask(key, "s");
  EXPECT_EQ(shrunk, 5);
  EXPECT_EQ(triage.states["s"].failures, 103u);
  EXPECT_TRUE(triage.ask(key, "another"));
}

TEST(Triage, ManyOfAKeyAreEnough) {
  const FailureKey wrong{"policy-bound", VerdictKind::fail, "finite"}, death{"guards", VerdictKind::crash, "killed"};
  Triage triage;
  int shrunk = 0, deaths = 0;
  for (int i = 0; i < 1000; ++i) {
    shrunk += triage.ask(wrong, std::to_string(i));
    deaths += triage.ask(death, "death " + std::to_string(i));
  }
  EXPECT_LE(shrunk, 110);
  EXPECT_LE(deaths, 6);
  EXPECT_TRUE(triage.ask({"hull", VerdictKind::fail, "finite"}, "s"));
}

// A failure that shares a message with a defect that is understood is another one.
TEST(Triage, WhatIsUnderstoodMakesRoomForTheRest) {
  const FailureKey death{"guards", VerdictKind::crash, "killed"};
  Triage triage;
  const auto chosen = [&](const std::string& of, std::uint64_t understood) {
    int count = 0;
    for (int i = 0; i < 100; ++i) count += triage.ask(death, of + std::to_string(i), understood);
    return count;
  };
  const int first = chosen("first", 0);
  EXPECT_GT(first, 0);
  EXPECT_EQ(chosen("more", 0), 0);
  EXPECT_GT(chosen("second", 1), 0);
  EXPECT_EQ(chosen("more of it", 1), 0);
}

}  // namespace
}  // namespace attest::engine
