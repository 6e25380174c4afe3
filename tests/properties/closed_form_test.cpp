// The laws that know the answer: mean, single-key, and what NaN and infinities must show (nonfinite-attended). Each
// must fail on a fake that is wrong in its way, must not fail on conforming ones, and says why where it does not apply.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "core/tensor.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

using test::verdict_of;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
const char* const small = "b=2 hq=2 hkv=1 lq=8 lk=8 d=3 dv=2 dtype=f32 values=normal:1 seed=4";

test::Kernel conforming(int which) {
  if (which == 0) return [](const attest_attention& call) { test::attend(call); };
  return [which](const attest_attention& call) { test::attend_tiled(call, which == 1 ? 4 : 3, which == 2); };
}

// Nothing narrow, but that splits are not merged by their log-sum-exp.
Contract unsplit(std::string_view policy = "f32") {
  Contract contract = test::promise(policy_from_text(policy)[Stage::storage]);
  contract.policy = policy_from_text(policy);
  contract.arithmetic.lse_merge = LseMerge::none;
  return contract;
}

Verdict run(std::string_view law, const std::string& problem, test::Kernel kernel, Contract contract = unsplit()) {
  test::Fake subject(std::move(kernel));
  return verdict_of(law, problem, subject, contract);
}

void expect_pass(std::string_view law, const std::string& problem, const Contract& contract = unsplit()) {
  for (int which = 0; which < 3; ++which) {
    const Verdict verdict = run(law, problem, conforming(which), contract);
    EXPECT_EQ(verdict.kind, VerdictKind::pass) << law << " " << which << " " << verdict.reason << " " << problem
                                               << (verdict.evidence ? " " + verdict.evidence->note : "");
    EXPECT_GT(verdict.counts.judged, 0);
  }
}

test::Kernel with_output(std::function<double(const attest_attention&, double, Index, Index, Index, Index)> output) {
  return [output = std::move(output)](const attest_attention& call) {
    test::attend(call, {.score = {}, .open = {}, .output = output});
  };
}
test::Kernel with_open(std::function<bool(const attest_attention&, bool, Index, Index, Index, Index)> open) {
  return [open = std::move(open)](const attest_attention& call) {
    test::attend(call, {.score = {}, .open = open, .output = {}});
  };
}

// --- mean

TEST(Mean, FailsOnAKeyTooManyOrTooFew) {
  const test::Kernel padding = with_output([](const attest_attention& a, double y, Index, Index, Index, Index) {
    const auto n = static_cast<double>(a.k.shape[2]);
    return y * n / (n + 1);  // one more key with score 0 and value 0
  });
  const test::Kernel dropped = with_open([](const attest_attention& a, bool open, Index, Index, Index, Index j) {
    return open && (j > 0 || a.k.shape[2] == 1);
  });
  const Verdict verdict = run("mean", small, padding);
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_EQ(verdict.evidence->note, "the mean of 8 values under equal scores");
  EXPECT_EQ(run("mean", small, dropped).kind, VerdictKind::fail);
}

TEST(Mean, IsExact) {
  const test::Kernel nearly =
      with_output([](const attest_attention&, double y, Index, Index, Index, Index) { return y * (1 + 0x1p-22); });
  EXPECT_EQ(run("mean", small, nearly).kind, VerdictKind::fail);
}

TEST(Mean, FailsOnASumThatSaturates) {  // ones counted in f16 stop at 2048
  const test::Kernel saturating = with_output([](const attest_attention& a, double y, Index, Index, Index, Index) {
    const auto n = static_cast<double>(a.k.shape[2]);
    return y * n / std::min(n, 2048.0);
  });
  EXPECT_EQ(run("mean", "b=1 hq=1 hkv=1 lq=1 lk=2048 d=1 dv=2 dtype=f32 values=normal:1 seed=1", saturating).kind,
            VerdictKind::pass);
  EXPECT_EQ(run("mean", "b=1 hq=1 hkv=1 lq=1 lk=4096 d=1 dv=2 dtype=f32 values=normal:1 seed=1", saturating).kind,
            VerdictKind::fail);
}

TEST(Mean, HoldsForConformingKernels) {
  for (const char* policy : {"f32", "f16", "bf16", "f64"})
    for (const char* options :
         {"", "causal=1", "keep=half", "bias=minus_inf", "bias=normal", "softcap=0x1p+3 bias=normal", "lengths=ragged",
          "scale=0", "scale=-0x1p-1 bias=lowest", "window_left=3", "v_layout=broadcast_rows", "values=huge:1",
          "k_layout=broadcast_heads v_layout=transposed out_layout=spaced"}) {
      const Contract contract = unsplit(policy);
      expect_pass("mean",
                  std::string("b=2 hq=2 hkv=1 lq=8 lk=8 d=3 dv=2 seed=4 dtype=") +
                      std::string(name(contract.policy[Stage::storage])) + " " + options,
                  contract);
    }
}

TEST(Mean, SkipsWithAReason) {
  EXPECT_EQ(run("mean", small, conforming(0), test::promise(Format::f32)).reason,
            "splits may be merged by their log-sum-exp");
  EXPECT_EQ(run("mean", "b=1 hq=1 hkv=1 lq=2 lk=7 d=1 dv=1 dtype=f32 values=normal:1 seed=1", conforming(0)).reason,
            "no row with a fitting power of two of open keys");
  // 512 values in bf16, whose integers are exact up to 256.
  EXPECT_EQ(run("mean", "b=1 hq=1 hkv=1 lq=2 lk=512 d=1 dv=1 dtype=bf16 values=normal:1 seed=1", conforming(0),
                unsplit("bf16-all"))
                .reason,
            "no row with a fitting power of two of open keys");
  Contract contract = unsplit();
  contract.arithmetic.normalise_lse = true;
  EXPECT_EQ(run("mean", small, conforming(0), contract).reason, "weights may carry the rounding of an lse");
  contract = unsplit();
  contract.arithmetic.div_ulp = 1;
  EXPECT_EQ(run("mean", small, conforming(0), contract).reason, "a division by a power of two may round");
  contract = unsplit("f16-all");
  EXPECT_EQ(run("mean", "b=1 hq=1 hkv=1 lq=2 lk=2 d=1 dv=1 dtype=f16 scale=0x1p+16 values=normal:1 seed=1",
                conforming(0), contract)
                .reason,
            "the scale or the softcap leaves a format");
}

// --- single-key

const char* const first_row_alone = "b=2 hq=2 hkv=1 lq=4 lk=5 d=3 dv=2 dtype=f32 causal=1 values=normal:1 seed=4";

TEST(SingleKey, FailsOnFactorsAndPadding) {
  const test::Kernel scaled =
      with_output([](const attest_attention& a, double y, Index, Index, Index, Index) { return y * a.scale; });
  const test::Kernel off_by_one = with_open([](const attest_attention& a, bool open, Index, Index, Index i, Index j) {
    return open || (j == i + 1 && j < a.k.shape[2]);
  });
  const test::Kernel nearly =
      with_output([](const attest_attention&, double y, Index, Index, Index, Index) { return y * (1 + 0x1p-22); });
  for (const bool exp2 : {true, false}) {
    Contract contract = test::promise(Format::f32);
    contract.arithmetic.exp2 = exp2;
    for (const test::Kernel& kernel : {scaled, off_by_one, nearly}) {
      const Verdict verdict = run("single-key", first_row_alone, kernel, contract);
      ASSERT_EQ(verdict.kind, VerdictKind::fail);
      EXPECT_EQ(verdict.evidence->index[2], 0);  // the row that sees one key
    }
  }
}

TEST(SingleKey, HoldsForConformingKernels) {
  for (const char* policy : {"f32", "f16", "bf16", "f16-all", "f32,operand=tf32", "f32,pv=f16"})
    for (const bool exp2 : {true, false})
      for (const char* options : {"causal=1", "keep=one", "lengths=one", "causal=1 values=huge:1",
                                  "causal=1 values=tiny:1", "window_left=0 window_right=0", "causal=1 bias=lowest",
                                  "causal=1 softcap=0x1p+2", "causal=1 v_layout=broadcast_heads"}) {
        Contract contract = test::promise(policy_from_text(policy)[Stage::storage]);
        contract.policy = policy_from_text(policy);
        contract.arithmetic.exp2 = exp2;
        expect_pass("single-key",
                    std::string("b=2 hq=2 hkv=1 lq=4 lk=5 d=3 dv=2 seed=4 dtype=") +
                        std::string(name(contract.policy[Stage::storage])) + " " + options,
                    contract);
      }
}

// With the exp2 trick a kernel may return v times p/p with p a little off 1, unless the score is 0.
TEST(SingleKey, AsksForVanishingScoresUnderExp2) {
  const test::Kernel trick = with_output([](const attest_attention& a, double y, Index b, Index h, Index i, Index) {
    double q = 0;
    for (Index c = 0; c < a.q.shape[3]; ++c) q += std::fabs(load(a.q, b, h, i, c));
    return q == 0 ? y : y * (1 + 0x1p-23);
  });
  Contract contract = test::promise(Format::f32);
  EXPECT_EQ(run("single-key", first_row_alone, trick, contract).kind, VerdictKind::pass);
  contract.arithmetic.exp2 = false;
  EXPECT_EQ(run("single-key", first_row_alone, trick, contract).kind, VerdictKind::fail);
}

TEST(SingleKey, LeavesAScoreAloneThatMayOverflow) {
  Contract contract = test::promise(Format::f16);
  contract.policy = policy_from_text("f16-all");
  contract.arithmetic.exp2 = false;
  const std::string problem = "b=1 hq=1 hkv=1 lq=1 lk=1 d=2 dv=1 dtype=f16 scale=1 values=constant:0x1p+10 seed=1";
  const test::Kernel overflowing =
      with_output([](const attest_attention&, double, Index, Index, Index, Index) { return nan; });
  EXPECT_EQ(run("single-key", problem, overflowing, contract).kind, VerdictKind::vacuous);
  contract.policy = policy_from_text("f16");  // scores in f32
  EXPECT_EQ(run("single-key", problem, overflowing, contract).kind, VerdictKind::fail);
}

// Rounded to bf16 on its way, the largest number of f16 is one that f16 does not have; 0 times infinity is NaN.
TEST(SingleKey, PutsNoInfinityAtMaskedKeys) {
  Contract contract = test::promise(Format::f16);
  contract.policy = policy_from_text("f16,output=bf16");
  contract.arithmetic.exp2 = false;
  const test::Kernel reads_all = with_output([](const attest_attention& a, double y, Index b, Index, Index, Index c) {
    for (Index j = 0; j < a.k.shape[2]; ++j) y += 0 * load(a.v, b, 0, j, c);
    return y;
  });
  const std::string problem = "b=1 hq=1 hkv=1 lq=2 lk=2 d=2 dv=1 dtype=f16 causal=1 edit=v[0,0,1,0]:65504 seed=1";
  EXPECT_EQ(run("single-key", problem, reads_all, contract).kind, VerdictKind::pass);
}

TEST(SingleKey, SkipsWithAReason) {
  EXPECT_EQ(run("single-key", small, conforming(0)).reason, "no row with a single open key");
}

// 1/32768 is subnormal in f16: a kernel that normalises weights first, and flushes such numbers, gives 0.
TEST(Mean, LeavesWeightsAloneThatMayBeFlushed) {
  const test::Kernel flushing = with_output([](const attest_attention& call, double y, Index, Index, Index, Index) {
    return 1.0 / static_cast<double>(call.k.shape[2]) < smallest_normal(Format::f16) ? 0 : y;
  });
  Contract contract = test::promise(Format::f16);
  contract.arithmetic.lse_merge = LseMerge::none;
  const auto kind = [&](Index lk) {
    return run("mean", "b=1 hq=1 hkv=1 lq=1 d=1 dv=8 dtype=f16 seed=3 lk=" + std::to_string(lk), flushing, contract)
        .kind;
  };
  EXPECT_EQ(kind(32768), VerdictKind::fail);
  contract.arithmetic.flush_to_zero = true;
  EXPECT_EQ(kind(32768), VerdictKind::skip);
  EXPECT_EQ(kind(8192), VerdictKind::pass);
}

// --- nonfinite-attended

// attend(), but that a row with a NaN among its scores is NaN, its log-sum-exp too.
void attend_with_nan(const attest_attention& call, decltype(test::Steps::open) open) {
  std::set<std::array<Index, 3>> rows;
  test::attend(call, {.score =
                          [&](const attest_attention&, double z, Index b, Index h, Index i, Index) {
                            if (std::isnan(z)) rows.insert({b, h, i});
                            return z;
                          },
                      .open = open,
                      .output =
                          [&](const attest_attention&, double y, Index b, Index h, Index i, Index) {
                            return rows.contains({b, h, i}) ? nan : y;
                          }});
  if (!attest_present(&call.lse)) return;
  for (const auto& [b, h, i] : rows) store(call.lse, b, h, i, 0, nan);
}

void attend_propagating(const attest_attention& call) { attend_with_nan(call, {}); }

Contract propagating() {
  Contract contract = test::promise(Format::f32);
  contract.nan = NanRule::propagates;
  return contract;
}

const char* const masks[] = {
    "", " causal=1", " keep=half", " lengths=ragged", " bias=minus_inf", " window_left=1", " keep=some_empty"};

std::string drawn(int seed, const char* options) {
  return std::string("b=3 hq=4 hkv=2 lq=5 lk=7 d=4 dv=3 dtype=f32 lse=f32 values=normal:1") + options +
         " seed=" + std::to_string(seed);
}

// Returns how often the law fails over some seeds and masks.
int failures(const test::Kernel& kernel, const Contract& contract) {
  int count = 0;
  for (const char* options : masks)
    for (int seed = 0; seed < 12; ++seed) {
      const Verdict verdict = run("nonfinite-attended", drawn(seed, options), kernel, contract);
      EXPECT_NE(verdict.kind, VerdictKind::skip) << verdict.reason;
      count += verdict.kind == VerdictKind::fail;
    }
  return count;
}

TEST(NonfiniteAttended, HoldsForConformingKernels) {
  EXPECT_EQ(failures(attend_propagating, propagating()), 0);
  Contract silent = propagating();
  silent.nan = NanRule::unspecified;
  EXPECT_EQ(failures([](const attest_attention& call) { test::attend(call); }, silent), 0);
  silent.deterministic.reset();
  silent.masked_unread = MaskedUnread::no;
  EXPECT_EQ(failures(attend_propagating, silent), 0);
}

TEST(NonfiniteAttended, FailsWhereANanIsLost) {
  // attend() itself returns 0 for a row whose sum is NaN.
  EXPECT_GT(failures([](const attest_attention& call) { test::attend(call); }, propagating()), 60);
  const test::Kernel cleaned = with_output([](const attest_attention&, double y, Index, Index, Index, Index) {
    return std::isfinite(y) ? y : 0;  // a NaN or infinity in v shows, whatever the contract says of NaN
  });
  Contract silent = propagating();
  silent.nan = NanRule::unspecified;
  EXPECT_GT(failures(cleaned, silent), 60);
}

TEST(NonfiniteAttended, FailsWhereALogSumExpLosesANan) {
  const test::Kernel cleaned = [](const attest_attention& call) {
    attend_propagating(call);
    for (Index b = 0; b < call.q.shape[0]; ++b)
      for (Index h = 0; h < call.q.shape[1]; ++h)
        for (Index i = 0; i < call.q.shape[2]; ++i)
          if (std::isnan(load(call.out, b, h, i, 0))) store(call.lse, b, h, i, 0, 0);
  };
  EXPECT_GT(failures(cleaned, propagating()), 20);
}

TEST(NonfiniteAttended, FailsWhereANanSpreads) {
  // The steps to the next row, to the next column, to the next sample.
  const std::array<Index, 3> steps[] = {{0, 1, 0}, {0, 0, 1}, {1, 0, 0}};
  for (const auto& [sample, row, column] : steps) {
    const test::Kernel spreading = [=](const attest_attention& call) {
      attend_propagating(call);
      for (Index b = call.q.shape[0] - 1; b >= sample; --b)
        for (Index h = 0; h < call.q.shape[1]; ++h)
          for (Index i = call.q.shape[2] - 1; i >= row; --i)
            for (Index c = call.v.shape[3] - 1; c >= column; --c)
              if (std::isnan(load(call.out, b - sample, h, i - row, c - column))) store(call.out, b, h, i, c, nan);
    };
    EXPECT_GT(failures(spreading, propagating()), 10) << sample << row << column;
  }
}

// Twice the result, and NaN for empty rows: wrong with and without the element, and so not by this law.
TEST(NonfiniteAttended, LeavesToOtherLawsWhatIsWrongWithoutTheElement) {
  const test::Kernel wrong = [](const attest_attention& call) {
    attend_propagating(call);
    for (Index b = 0; b < call.q.shape[0]; ++b)
      for (Index h = 0; h < call.q.shape[1]; ++h)
        for (Index i = 0; i < call.q.shape[2]; ++i)
          for (Index c = 0; c < call.v.shape[3]; ++c) {
            const double y = load(call.out, b, h, i, c);
            store(call.out, b, h, i, c, y == 0 ? nan : 2 * y);
          }
  };
  Contract contract = propagating();
  EXPECT_EQ(failures(wrong, contract), 0);
  contract.deterministic.reset();
  EXPECT_EQ(failures(wrong, contract), 0);
}

// 0 times a NaN at a masked key: permitted unless masked keys are never read.
TEST(NonfiniteAttended, LeavesMaskedKeysToTheContract) {
  const test::Kernel zero_times_v = [](const attest_attention& call) {
    attend_propagating(call);
    for (Index b = 0; b < call.q.shape[0]; ++b)
      for (Index h = 0; h < call.q.shape[1]; ++h)
        for (Index i = 0; i < call.q.shape[2]; ++i)
          for (Index j = 0; j < call.k.shape[2]; ++j)
            for (Index c = 0; c < call.v.shape[3]; ++c)
              store(call.out, b, h, i, c, load(call.out, b, h, i, c) + 0 * load(call.v, b, h / 2, j, c));
  };
  Contract contract = propagating();
  EXPECT_GT(failures(zero_times_v, contract), 10);
  contract.masked_unread = MaskedUnread::no;
  EXPECT_EQ(failures(zero_times_v, contract), 0);
}

// The lowest f32 is -inf once it is rounded to scores in f16: such a key, and its NaN, may be masked. So it is in f32
// where scores may be multiplied by log2 e.
TEST(NonfiniteAttended, LetsABiasThatOverflowsExcludeItsKey) {
  const test::Kernel closes = [](const attest_attention& call) {
    attend_with_nan(call, [](const attest_attention& a, bool open, Index b, Index h, Index i, Index j) {
      return open && load(a.bias, b, h, i, j) > -65520;
    });
  };
  Contract contract = propagating();
  int failed = 0, failed_in_f32 = 0, failed_in_f32_with_exp2 = 0;
  for (int seed = 0; seed < 12; ++seed) {
    const std::string problem =
        "b=1 hq=1 hkv=1 lq=2 lk=1 d=2 dv=1 dtype=f16 bias=lowest bias_type=f32 values=normal:1 seed=" +
        std::to_string(seed);
    contract.policy = policy_from_text("f16-all");
    failed += run("nonfinite-attended", problem, closes, contract).kind == VerdictKind::fail;
    contract.policy = policy_from_text("f16");
    failed_in_f32_with_exp2 += run("nonfinite-attended", problem, closes, contract).kind == VerdictKind::fail;
    contract.arithmetic.exp2 = false;
    failed_in_f32 += run("nonfinite-attended", problem, closes, contract).kind == VerdictKind::fail;
    contract.arithmetic.exp2 = true;
  }
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(failed_in_f32_with_exp2, 0);
  EXPECT_GT(failed_in_f32, 0);
}

// A score that overflows to -inf in its format takes its key along, and with it the NaN or infinity in v.
TEST(NonfiniteAttended, LetsALostScoreTakeItsValueAlong) {
  const test::Kernel loses = [](const attest_attention& call) {
    attend_with_nan(call, [](const attest_attention& a, bool open, Index b, Index h, Index i, Index j) {
      const double score = load(a.q, b, h, i, 0) * load(a.k, b, h, j, 0);
      return open && !(score <= -65520);
    });
  };
  Contract contract = propagating();
  contract.arithmetic.fold_q = contract.arithmetic.fold_k = contract.arithmetic.fold_sqrt = false;
  const std::string problem =
      "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f16 scale=1 values=constant:0x1p+8 edit=q[0,0,0,0]:-0x1p+8 seed=";
  for (int seed = 0; seed < 12; ++seed) {
    contract.policy = policy_from_text("f16-all");
    EXPECT_NE(run("nonfinite-attended", problem + std::to_string(seed), loses, contract).kind, VerdictKind::fail);
    contract.policy = policy_from_text("f16");  // scores in f32
    EXPECT_EQ(run("nonfinite-attended", problem + std::to_string(seed), loses, contract).kind, VerdictKind::fail);
  }
}

// Memory that stride 0 shares is reached through every index.
TEST(NonfiniteAttended, FollowsSharedMemory) {
  for (const char* options :
       {" q_layout=broadcast_batch", " q_layout=broadcast_rows", " k_layout=broadcast_rows causal=1",
        " k_layout=broadcast_batch lengths=ragged", " v_layout=broadcast_heads keep=half",
        " v_layout=broadcast_rows causal=1", " q_layout=broadcast_heads v_layout=broadcast_batch"})
    for (int seed = 0; seed < 12; ++seed) {
      const Verdict verdict = run("nonfinite-attended", drawn(seed, options), attend_propagating, propagating());
      EXPECT_EQ(verdict.kind, VerdictKind::pass)
          << drawn(seed, options) << " " << verdict.reason << (verdict.evidence ? verdict.evidence->note : "");
    }
}

}  // namespace
}  // namespace attest
