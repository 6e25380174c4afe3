// The exact laws that compare a call with a changed one: threads, causal-prefix, value-sign, value-power, qk-sign,
// qk-flip. Each must fail on a fake that is wrong in its way, must not fail on conforming ones, and says why where it
// does not apply.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

using test::verdict_of;

const char* const plain = "b=3 hq=4 hkv=2 lq=5 lk=7 d=4 dv=3 dtype=f32 scale=0x1p-1 lse=f32 values=normal:1 seed=11";

test::Kernel conforming(int which) {
  if (which == 0) return [](const attest_attention& call) { test::attend(call); };
  return [which](const attest_attention& call) { test::attend_tiled(call, which == 1 ? 4 : 3, which == 2); };
}

Verdict run(std::string_view law, const std::string& problem, test::Kernel kernel,
            Contract contract = test::promise(Format::f32)) {
  test::Fake subject(std::move(kernel));
  return verdict_of(law, problem, subject, contract);
}

// Kernels that differ in their bits; `judges` is false where a law may have nothing to say.
void expect_holds(std::string_view law, const std::string& problem, const Contract& contract, bool judges = true) {
  for (int which = 0; which < 3; ++which) {
    const Verdict verdict = run(law, problem, conforming(which), contract);
    EXPECT_FALSE(is_finding(verdict.kind)) << law << " " << which << " " << problem << " " << verdict.evidence->note;
    if (!judges) continue;
    EXPECT_EQ(verdict.kind, VerdictKind::pass) << law << " " << which << " " << verdict.reason << " " << problem;
    EXPECT_GT(verdict.counts.judged, 0);
  }
}

test::Kernel with_output(std::function<double(const attest_attention&, double, Index, Index, Index, Index)> output) {
  return [output = std::move(output)](const attest_attention& call) {
    test::attend(call, {.score = {}, .open = {}, .output = output});
  };
}

// Attention on a changed copy of q.
test::Kernel with_query(std::function<double(double, Index column)> change) {
  return [change = std::move(change)](const attest_attention& call) {
    const Index shape[] = {call.q.shape[0], call.q.shape[1], call.q.shape[2], call.q.shape[3]};
    Tensor q(*dtype_of(call.q.dtype), shape);
    for (Index b = 0; b < shape[0]; ++b)
      for (Index h = 0; h < shape[1]; ++h)
        for (Index i = 0; i < shape[2]; ++i)
          for (Index c = 0; c < shape[3]; ++c) q.set(b, h, i, c, change(load(call.q, b, h, i, c), c));
    attest_attention changed = call;
    changed.q = q.view();
    test::attend(changed);
  };
}

// --- threads

TEST(Threads, FailsOnABitWhereTheContractClaimsThem) {
  const test::Kernel last_bit = [](const attest_attention& call) {
    test::attend(call);
    const auto x = static_cast<float>(load(call.out, 1, 2, 3, 1));
    if (call.threads == 2) store(call.out, 1, 2, 3, 1, std::nextafter(x, 9.0f));
  };
  Contract contract = test::promise(Format::f32);
  const Verdict verdict = run("threads", plain, last_bit, contract);
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_EQ(verdict.evidence->note, "the same call with 2 threads");
  contract.deterministic = Deterministic::rerun;
  EXPECT_EQ(run("threads", plain, last_bit, contract).kind, VerdictKind::pass);
  contract.deterministic.reset();
  EXPECT_EQ(run("threads", plain, last_bit, contract).kind, VerdictKind::pass);
}

TEST(Threads, HoldsResultsToTheEnclosureElsewhere) {
  const test::Kernel lost_rows = [](const attest_attention& call) {
    test::attend(call);
    if (call.threads > 2) store(call.out, 0, 0, 0, 0, load(call.out, 0, 0, 0, 0) + 1);
  };
  Contract contract = test::promise(Format::f32);
  contract.deterministic.reset();
  EXPECT_EQ(run("threads", plain, lost_rows, contract).kind, VerdictKind::fail);
  expect_holds("threads", plain, contract);
  expect_holds("threads", plain, test::promise(Format::f32));
}

// --- causal-prefix

TEST(CausalPrefix, FailsWhenARowSeesAFutureKey) {
  const test::Kernel off_by_one = [](const attest_attention& call) {
    test::attend(call, {.score = {},
                        .open =
                            [](const attest_attention& a, bool open, Index, Index, Index i, Index j) {
                              return open || j == (a.align == ATTEST_BOTTOM_RIGHT ? i + 9 - a.q.shape[2] : i) + 1;
                            },
                        .output = {}});
  };
  for (const char* options : {"", " align=bottom_right", " window_left=1"}) {
    const Verdict verdict =
        run("causal-prefix",
            std::string("b=2 hq=2 hkv=1 lq=6 lk=9 d=3 dv=2 dtype=f32 causal=1 values=normal:1 seed=5") + options,
            off_by_one);
    ASSERT_EQ(verdict.kind, VerdictKind::fail) << options;
    EXPECT_NE(verdict.evidence->note.find("only keys behind what row"), std::string::npos);
  }
}

TEST(CausalPrefix, FailsWhenTheDiagonalIgnoresTheLengths) {
  // Bottom-right alignment measured from lk, whatever the sample's length: shorter samples see too far.
  const test::Kernel from_lk = [](const attest_attention& call) {
    test::attend(call, {.score = {},
                        .open =
                            [](const attest_attention& a, bool, Index b, Index, Index i, Index j) {
                              return j < static_cast<Index>(load(a.kv_lengths, b)) &&
                                     j <= i + a.k.shape[2] - a.q.shape[2];
                            },
                        .output = {}});
  };
  bool found = false;
  for (int seed = 0; seed < 20 && !found; ++seed)
    found = run("causal-prefix",
                "b=3 hq=1 hkv=1 lq=4 lk=9 d=3 dv=2 dtype=f32 causal=1 align=bottom_right lengths=ragged "
                "values=normal:1 seed=" +
                    std::to_string(seed),
                from_lk)
                .kind == VerdictKind::fail;
  EXPECT_TRUE(found);
}

TEST(CausalPrefix, HoldsWithEveryMaskAndLayout) {
  for (const char* options :
       {"causal=1", "causal=1 align=bottom_right", "causal=1 align=bottom_right lengths=ragged", "window_right=1",
        "window_right=0 window_left=2 align=bottom_right", "causal=1 lengths=some_zero lse=f32",
        "causal=1 keep=half keep_axes=12", "causal=1 bias=minus_inf", "causal=1 k_layout=broadcast_batch",
        "causal=1 k_layout=broadcast_heads v_layout=transposed", "causal=1 v_layout=broadcast_rows", "window_right=3"})
    for (const char* size : {"lq=6 lk=9", "lq=9 lk=4"})
      for (int seed = 0; seed < 8; ++seed)
        expect_holds("causal-prefix",
                     std::string("b=2 hq=2 hkv=1 d=3 dv=2 dtype=f32 values=normal:1 ") + size +
                         " seed=" + std::to_string(seed) + " " + options,
                     test::promise(Format::f32), false);
  expect_holds("causal-prefix", std::string(plain) + " causal=1", test::promise(Format::f32));
}

TEST(CausalPrefix, LeavesEmptyRowsAloneThatDependOnValues) {
  // Row 0 of a bottom-right mask with more queries than keys sees no key: the mean of all values.
  const std::string problem =
      "b=1 hq=1 hkv=1 lq=4 lk=3 d=2 dv=2 dtype=f32 causal=1 align=bottom_right values=normal:1 seed=2";
  const test::Kernel mean = [](const attest_attention& call) {
    test::attend(call);
    for (Index c = 0; c < 2; ++c) {
      double sum = 0;
      for (Index j = 0; j < 3; ++j) sum += load(call.v, 0, 0, j, c);
      store(call.out, 0, 0, 0, c, sum / 3);
    }
  };
  Contract contract = test::promise(Format::f32);
  EXPECT_EQ(run("causal-prefix", problem, mean, contract).kind, VerdictKind::fail);
  for (const EmptyRow rule : {EmptyRow::mean_v, EmptyRow::unspecified}) {
    contract.empty_row = rule;
    EXPECT_EQ(run("causal-prefix", problem, mean, contract).kind, VerdictKind::pass);
  }
}

TEST(CausalPrefix, SkipsWithAReason) {
  EXPECT_EQ(run("causal-prefix", plain, conforming(0)).reason, "neither causal nor a right window");
  EXPECT_EQ(run("causal-prefix", std::string(plain) + " window_right=7", conforming(0)).reason,
            "every row may see every key");
  EXPECT_EQ(run("causal-prefix", std::string(plain) + " causal=1 k_layout=broadcast_rows v_layout=broadcast_rows",
                conforming(0))
                .reason,
            "no later key has memory of its own");
}

// --- value-sign, value-power

const char* const regimes[] = {"values=normal:1",  "values=integers:1",       "values=flat:1",    "values=wide_value:1",
                               "values=tiny:1",    "values=huge:1",           "values=wide:1",    "values=peaked:1",
                               "values=outlier:1", "values=normal:0x1.8p-20", "values=constant:1"};

TEST(ValueSign, FailsOnAClampThatFavoursASign) {
  const test::Kernel clamp =
      with_output([](const attest_attention&, double y, Index, Index, Index, Index) { return std::max(y, 0x1p-126); });
  EXPECT_EQ(run("value-sign", plain, clamp).kind, VerdictKind::fail);
  const test::Kernel symmetric = with_output([](const attest_attention&, double y, Index, Index, Index, Index) {
    return std::clamp(y, -0.25, 0.25);  // wrong, but not by this law
  });
  EXPECT_EQ(run("value-sign", plain, symmetric).kind, VerdictKind::pass);
}

// An ulp more for quotients of one sign, or of 1/8 and more: within two ulps either way.
TEST(ValueSignAndPower, NeedADivisionThatIsRounded) {
  const test::Kernel of_a_sign = with_output(
      [](const attest_attention&, double y, Index, Index, Index, Index) { return y > 0 ? y * (1 + 0x1p-23) : y; });
  const test::Kernel of_a_size = with_output([](const attest_attention&, double y, Index, Index, Index, Index) {
    return std::fabs(y) >= 0.125 ? y * (1 + 0x1p-23) : y;
  });
  Contract contract = test::promise(Format::f32);
  EXPECT_EQ(run("value-sign", plain, of_a_sign, contract).kind, VerdictKind::fail);
  int failed = 0;  // where the power moves results across 1/8
  for (const char* seed : {"1", "2", "3", "4", "5", "6", "7", "8"})
    failed += run("value-power", std::string("lq=5 lk=7 d=4 dv=3 dtype=f32 scale=0x1p-1 values=normal:1 seed=") + seed,
                  of_a_size, contract)
                  .kind == VerdictKind::fail;
  EXPECT_GE(failed, 1);
  contract.arithmetic.div_ulp = 2;
  for (const char* law : {"value-sign", "value-power"})
    EXPECT_EQ(run(law, plain, of_a_sign, contract).reason, "a poor division may favour a sign or a size");
}

TEST(ValueSign, HoldsInEveryRegime) {
  for (const char* dtype : {"f32", "f16", "bf16"})
    for (const char* values : regimes)
      for (const char* options : {"", " keep=some_empty", " v_layout=broadcast_rows", " v_layout=broadcast_heads"})
        expect_holds(
            "value-sign",
            std::string("b=2 hq=2 hkv=1 lq=3 lk=7 d=3 dv=2 lse=f64 dtype=") + dtype + " seed=3 " + values + options,
            test::promise(*format_from_name(dtype)));
}

TEST(ValuePower, FailsOnWhatIsAbsolute) {
  const test::Kernel epsilon =
      with_output([](const attest_attention&, double y, Index, Index, Index, Index) { return y + 0x1p-20; });
  const test::Kernel flushed = with_output([](const attest_attention&, double y, Index, Index, Index, Index) {
    return std::fabs(y) < 0x1p-6 ? 0 : y;  // seen where the power is small
  });
  const test::Kernel clamped =
      with_output([](const attest_attention&, double y, Index, Index, Index, Index) { return std::min(y, 16.0); });
  const auto found = [](const test::Kernel& kernel) {
    int count = 0;
    for (int seed = 0; seed < 40; ++seed)
      count += run("value-power",
                   "b=1 hq=2 hkv=1 lq=3 lk=5 d=2 dv=3 dtype=f32 values=normal:1 seed=" + std::to_string(seed), kernel)
                   .kind == VerdictKind::fail;
    return count;
  };
  EXPECT_EQ(found(epsilon), 40);
  EXPECT_GT(found(flushed), 5);
  EXPECT_GT(found(clamped), 5);
}

TEST(ValuePower, HoldsInEveryRegimeAndFormat) {
  for (const char* policy : {"f32", "f16", "bf16", "f16-all", "bf16-all", "f16-acc16", "f64"})
    for (const char* values : regimes) {
      Contract contract = test::promise(policy_from_text(policy)[Stage::storage]);
      contract.policy = policy_from_text(policy);
      for (const char* options :
           {"", " keep=some_empty", " v_layout=broadcast_rows", " bias=normal", " softcap=0x1p+1"})
        for (int seed = 0; seed < 4; ++seed)
          expect_holds("value-power",
                       std::string("b=2 hq=2 hkv=1 lq=3 lk=9 d=3 dv=2 lse=f32 dtype=") +
                           std::string(name(contract.policy[Stage::storage])) + " " + values + options +
                           " seed=" + std::to_string(seed),
                       contract, false);
    }
  for (const char* dtype : {"f32", "f16", "bf16"})
    expect_holds("value-power", std::string("b=1 hq=1 hkv=1 lq=3 lk=9 d=3 dv=2 values=normal:1 seed=1 dtype=") + dtype,
                 test::promise(*format_from_name(dtype)));
  Contract narrow = test::promise(Format::f16);
  narrow.policy = policy_from_text("f16-all");
  expect_holds("value-power", "b=1 hq=1 hkv=1 lq=3 lk=2 d=3 dv=2 values=normal:0x1p-4 scale=0x1p-2 seed=1 dtype=f16",
               narrow);
}

TEST(ValuePower, SkipsWhereAContributionMayVanish) {
  EXPECT_EQ(run("value-power", std::string(plain) + " bias=lowest", conforming(0)).reason,
            "a contribution of some key might over- or underflow");
  EXPECT_EQ(
      run("value-power", "b=1 hq=1 hkv=1 lq=3 lk=9 d=3 dv=2 dtype=f32 values=peaked:16 scale=1 seed=1", conforming(0))
          .reason,
      "a contribution of some key might over- or underflow");
}

// --- qk-sign, qk-flip

TEST(QkSign, FailsOnAQueryThatIsRoundedDown) {
  const test::Kernel floor = with_query([](double x, Index) { return std::floor(x * 256) / 256; });
  const test::Kernel nearest = with_query([](double x, Index) { return std::nearbyint(x * 256) / 256; });
  for (const char* law : {"qk-sign", "qk-flip"}) {
    EXPECT_EQ(run(law, plain, floor).kind, VerdictKind::fail) << law;
    EXPECT_EQ(run(law, plain, nearest).kind, VerdictKind::pass) << law;  // wrong, but not by this law
  }
}

TEST(QkFlip, FailsOnCoordinatesThatAreMixedUp) {
  // The coordinates of q are exchanged, those of k are not: -q and -k do not show it.
  const test::Kernel exchanged = [](const attest_attention& call) {
    attest_attention changed = call;
    std::int64_t strides[] = {call.q.strides[0], call.q.strides[1], call.q.strides[2], 0};
    changed.q.strides = strides;  // each coordinate is the first
    test::attend(changed);
  };
  EXPECT_EQ(run("qk-sign", plain, exchanged).kind, VerdictKind::pass);
  int found = 0;
  for (int seed = 0; seed < 20; ++seed)
    found += run("qk-flip", "b=1 hq=1 hkv=1 lq=2 lk=3 d=4 dv=2 dtype=f32 values=normal:1 seed=" + std::to_string(seed),
                 exchanged)
                 .kind == VerdictKind::fail;
  EXPECT_GT(found, 10);
}

TEST(QkSign, HoldsInEveryRegime) {
  for (const char* law : {"qk-sign", "qk-flip"})
    for (const char* dtype : {"f32", "f16", "bf16"})
      for (const char* values : regimes)
        for (const char* options : {"", " q_layout=broadcast_rows", " k_layout=broadcast_batch softcap=0x1p+1",
                                    " scale=-0x1.3p-2 k_layout=transposed bias=alibi keep=half"})
          expect_holds(
              law,
              std::string("b=2 hq=2 hkv=1 lq=3 lk=7 d=5 dv=2 lse=f64 dtype=") + dtype + " seed=3 " + values + options,
              test::promise(*format_from_name(dtype)));
}

TEST(QkSign, SkipsWithAReason) {
  EXPECT_EQ(run("qk-flip", "b=1 hq=1 hkv=1 lq=2 lk=3 d=1 dv=2 dtype=f32 values=normal:1 seed=1", conforming(0)).reason,
            "one coordinate");
  for (const char* law : {"qk-sign", "value-sign", "value-power"})
    EXPECT_EQ(run(law, plain, conforming(0), contract_for(Policy(Format::f32))).reason,
              "the subject does not claim to be deterministic");
}

}  // namespace
}  // namespace attest
