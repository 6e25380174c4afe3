// The exact laws: each must fail on a fake that is wrong in exactly its way, must not fail on conforming ones, and says
// why where it does not apply.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/tensor.hpp"
#include "tests/properties/fake.hpp"

namespace attest {
namespace {

using test::verdict_of;

const char* const plain = "b=3 hq=4 hkv=2 lq=5 lk=7 d=4 dv=3 dtype=f32 scale=0x1p-1 lse=f32 values=normal:1 seed=11";
const char* const masked =
    "b=2 hq=2 hkv=1 lq=3 lk=16 d=4 dv=3 dtype=f32 keep=half keep_axes=8 causal=1 align=bottom_right values=normal:1 "
    "seed=5";

test::Kernel conforming(int which) {
  if (which == 0) return [](const attest_attention& call) { test::attend(call); };
  return [which](const attest_attention& call) { test::attend_tiled(call, which == 1 ? 4 : 3, which == 2); };
}

void expect_pass(std::string_view law, const std::string& problem, const Contract& contract) {
  for (int which = 0; which < 3; ++which) {
    test::Fake subject(conforming(which));
    const Verdict verdict = verdict_of(law, problem, subject, contract);
    EXPECT_EQ(verdict.kind, VerdictKind::pass) << law << " " << which << " " << verdict.reason << " " << problem;
    EXPECT_GT(verdict.counts.judged, 0);
  }
}

Verdict run(std::string_view law, const std::string& problem, test::Kernel kernel,
            Contract contract = test::promise(Format::f32)) {
  test::Fake subject(std::move(kernel));
  return verdict_of(law, problem, subject, contract);
}

// --- batch

TEST(BatchValues, FailsWhenASampleReadsAnother) {
  for (const bool queries : {false, true}) {
    const Verdict verdict = run("batch-values", plain, [=](const attest_attention& call) {
      attest_attention leak = call;
      attest_tensor& tensor = queries ? leak.q : leak.k;
      std::int64_t strides[] = {0, tensor.strides[1], tensor.strides[2], tensor.strides[3]};
      tensor.strides = strides;
      test::attend(leak);
    });
    ASSERT_EQ(verdict.kind, VerdictKind::fail);
    EXPECT_GT(verdict.evidence->index[0], 0);
  }
}

TEST(BatchValues, ChangesValuesThatEveryProblemHas) {  // constant values do not change with the seed
  const test::Kernel leak = [](const attest_attention& call) {
    attest_attention wrong = call;
    std::int64_t strides[] = {0, call.v.strides[1], call.v.strides[2], call.v.strides[3]};
    wrong.v.strides = strides;
    test::attend(wrong);
  };
  for (const char* values : {"values=constant:1 seed=1", "values=normal:1 v_form=zero seed=1"})
    EXPECT_EQ(run("batch-values", std::string("b=2 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 ") + values, leak).kind,
              VerdictKind::fail);
}

TEST(BatchValues, SkipsWithAReason) {
  const test::Kernel kernel = conforming(0);
  EXPECT_EQ(run("batch-values", "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 values=normal:1 seed=1", kernel).reason,
            "one sample");
  EXPECT_EQ(
      run("batch-values",
          std::string(plain) + " q_layout=broadcast_batch k_layout=broadcast_batch v_layout=broadcast_batch", kernel)
          .reason,
      "the samples share all their values");
  EXPECT_EQ(run("batch-values", plain, kernel, contract_for(Policy(Format::f32))).reason,
            "the subject does not claim to be deterministic");
}

TEST(BatchBitwise, FailsWhenTheBatchSizeChangesABit) {
  const test::Kernel by_batch = [](const attest_attention& call) {
    test::attend(call);
    if (call.q.shape[0] > 1)
      store(call.out, 0, 0, 0, 0, std::nextafter(static_cast<float>(load(call.out, 0, 0, 0, 0)), 9.0f));
  };
  for (const char* problem : {plain, "b=1 hq=1 hkv=1 lq=2 lk=3 d=2 dv=2 dtype=f32 values=normal:1 seed=1"}) {
    EXPECT_EQ(run("batch-bitwise", problem, by_batch).kind, VerdictKind::fail);
    Contract bounded = test::promise(Format::f32);
    bounded.batch_invariant.reset();
    EXPECT_EQ(run("batch-bounded", problem, by_batch, bounded).kind, VerdictKind::pass);
  }
}

TEST(BatchBitwise, FailsWhenASamplesPlaceMatters) {
  EXPECT_EQ(run("batch-bitwise", plain,
                [](const attest_attention& call) {
                  test::attend(call, {.score = {},
                                      .open = {},
                                      .output = [](const attest_attention&, double y, Index b, Index, Index, Index) {
                                        return b == 2 ? y * (1 + 0x1p-20) : y;
                                      }});
                })
                .kind,
            VerdictKind::fail);
}

TEST(BatchBitwise, RespectsTheBatchSizesOfTheSubject) {
  test::Fake subject(conforming(0));
  subject.edit().supports.b = {1, 1, 1};
  EXPECT_EQ(verdict_of("batch-bitwise", "b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 values=normal:1 seed=1", subject,
                       test::promise(Format::f32))
                .reason,
            "the subject takes one batch size");
}

// --- masked-contents

TEST(MaskedContents, FailsWhenMaskedKeysLeak) {
  // Scores of masked keys become -20 in place of -inf.
  const test::Kernel finite_mask = [](const attest_attention& call) {
    test::attend(call, {.score = {},
                        .open = [](const attest_attention&, bool, Index, Index, Index, Index) { return true; },
                        .output = {}});
  };
  EXPECT_EQ(run("masked-contents", masked, finite_mask).kind, VerdictKind::fail);
}

TEST(NonfiniteMasked, HoldsOnlyIfTheContractSaysUnread) {
  // Weight 0 times whatever lies there: harmless for finite values.
  const test::Kernel zero_times_v = [](const attest_attention& call) {
    test::attend(call);
    for (Index b = 0; b < call.q.shape[0]; ++b)
      for (Index h = 0; h < call.q.shape[1]; ++h)
        for (Index i = 0; i < call.q.shape[2]; ++i)
          for (Index j = 0; j < call.k.shape[2]; ++j)
            for (Index c = 0; c < call.v.shape[3]; ++c)
              store(call.out, b, h, i, c,
                    load(call.out, b, h, i, c) + 0 * load(call.v, b, h / (call.q.shape[1] / call.k.shape[1]), j, c));
  };
  Contract contract = test::promise(Format::f32);
  const Verdict verdict = run("nonfinite-masked", masked, zero_times_v, contract);
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_EQ(verdict.evidence->wrong, Wrong::nan);
  EXPECT_EQ(run("masked-contents", masked, zero_times_v, contract).kind, VerdictKind::pass);
  expect_pass("nonfinite-masked", masked, contract);
  contract.masked_unread = MaskedUnread::no;
  EXPECT_EQ(run("nonfinite-masked", masked, zero_times_v, contract).reason, "masked keys may be read");
  contract.masked_unread = MaskedUnread::beyond_length;
  EXPECT_EQ(run("nonfinite-masked", masked, zero_times_v, contract).reason, "no key lengths");
  const std::string lengths = std::string(plain) + " lengths=one keep=half keep_axes=8";
  EXPECT_EQ(run("nonfinite-masked", lengths, zero_times_v, contract).kind, VerdictKind::fail);
  expect_pass("nonfinite-masked", lengths, contract);
}

// Scores of f16, to which -inf is added: the largest finite k at a masked key makes NaN of its row.
TEST(MaskedContents, LeavesKernelsAloneThatSayTheyAddTheirMasks) {
  const std::string halves =
      "b=2 hq=2 hkv=1 lq=3 lk=16 d=4 dv=3 dtype=f16 keep=half keep_axes=8 values=normal:1 seed=5";
  const test::Kernel adds = [](const attest_attention& call) {
    test::attend(call);
    bool lost = false;
    for (Index j = 0; j < call.k.shape[2]; ++j)
      for (Index c = 0; c < call.k.shape[3]; ++c) lost = lost || std::fabs(load(call.k, 0, 0, j, c)) > 60000;
    if (lost) store(call.out, 0, 0, 0, 0, std::numeric_limits<double>::quiet_NaN());
  };
  Contract contract = test::promise(Format::f16);
  contract.masked_unread = MaskedUnread::no;
  EXPECT_EQ(run("masked-contents", halves, adds, contract).kind, VerdictKind::fail);
  contract.mask_added = true;
  EXPECT_NE(run("masked-contents", halves, adds, contract).kind, VerdictKind::fail);
}

// Another k behind the diagonal may have a score that overflows, to which such a kernel adds -inf.
TEST(CausalPrefix, ChangesValuesAloneWhereMasksAreAdded) {
  std::optional<double> first;
  const test::Kernel looks = [&first](const attest_attention& call) {
    test::attend(call);
    const double last = load(call.k, 0, 0, 3, 0);
    if (!first) first = last;
    if (last != *first) store(call.out, 0, 0, 0, 0, std::numeric_limits<double>::quiet_NaN());
  };
  Contract contract = test::promise(Format::f16);
  contract.masked_unread = MaskedUnread::no;
  const char* const causal = "b=1 hq=1 hkv=1 lq=4 lk=4 d=2 dv=2 dtype=f16 causal=1 values=normal:1 seed=5";
  EXPECT_EQ(run("causal-prefix", causal, looks, contract).kind, VerdictKind::fail);
  first.reset();
  contract.mask_added = true;
  EXPECT_EQ(run("causal-prefix", causal, looks, contract).kind, VerdictKind::pass);
}

TEST(NonfiniteMasked, FindsAKernelThatReadsInfinityAsAMaximum) {
  // The running maximum takes in every key before the mask does.
  const Verdict verdict = run("nonfinite-masked", masked, [](const attest_attention& call) {
    test::attend(call);
    for (Index j = 0; j < call.k.shape[2]; ++j)
      for (Index c = 0; c < call.k.shape[3]; ++c)
        if (std::isinf(load(call.k, 0, 0, j, c))) store(call.out, 0, 0, 0, 0, 0);
  });
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_NE(verdict.evidence->note.find("infinities at masked keys"), std::string::npos);
}

TEST(MaskedContents, LeavesRowsAloneThatAverageAllValues) {
  const Problem problem = problem_from_text(
      "b=1 hq=1 hkv=1 lq=2 lk=6 d=2 dv=2 dtype=f32 lengths=full keep=closed "
      "values=normal:1 seed=2");
  const test::Kernel mean = [](const attest_attention& call) {
    for (Index i = 0; i < 2; ++i)
      for (Index c = 0; c < 2; ++c) {
        double sum = 0;
        for (Index j = 0; j < 6; ++j) sum += load(call.v, 0, 0, j, c);
        store(call.out, 0, 0, i, c, sum / 6);
      }
  };
  Contract contract = test::promise(Format::f32);
  contract.masked_unread = MaskedUnread::no;
  test::Fake subject(mean);
  EXPECT_EQ(verdict_of("masked-contents", problem, subject, contract).kind, VerdictKind::fail);
  for (const EmptyRow rule : {EmptyRow::mean_v, EmptyRow::unspecified}) {
    contract.empty_row = rule;
    EXPECT_NE(verdict_of("masked-contents", problem, subject, contract).kind, VerdictKind::fail);
  }
}

// Scores of 2^16 overflow f16: such a row may hold anything, and counts for nothing.
TEST(MaskedContents, CountsNoRowThatMayHaveLostItsKeys) {
  Contract contract = test::promise(Format::f16);
  contract.empty_row = EmptyRow::unspecified;
  const test::Kernel last_value = [](const attest_attention& call) {
    for (Index i = 0; i < call.out.shape[2]; ++i) store(call.out, 0, 0, i, 0, load(call.v, 0, 0, 1, 0));
  };
  const char* const problem =
      "b=1 hq=1 hkv=1 lq=4 lk=2 d=1 dv=1 dtype=f16 scale=1 lengths=one values=constant:0x1p+8 seed=1";
  contract.policy = policy_from_text("f16-all");
  const Verdict verdict = run("masked-contents", problem, last_value, contract);
  EXPECT_EQ(verdict.kind, VerdictKind::vacuous);
  EXPECT_EQ(verdict.counts.judged, 0);
  contract.policy = policy_from_text("f16");  // scores in f32
  EXPECT_EQ(run("masked-contents", problem, last_value, contract).kind, VerdictKind::fail);
}

// Infinity plus a bias of -inf is a NaN; with another k there the row is empty by its contract, or its other key
// decides it.
TEST(MaskedContents, LetsARowBeNaNByTheScoreOfAKeyThatOnlyABiasCloses) {
  const test::Kernel scores_in_f16 = [](const attest_attention& call) {
    test::attend(call);
    for (Index i = 0; i < call.q.shape[2]; ++i)
      for (Index j = 0; j < call.k.shape[2]; ++j)
        if (std::isinf(round_to(Format::f16, load(call.q, 0, 0, i, 0) * load(call.k, 0, 0, j, 0))))
          store(call.out, 0, 0, i, 0, std::numeric_limits<double>::quiet_NaN());
  };
  Contract contract = test::promise(Format::f16);
  for (const EmptyRow rule : {EmptyRow::zero, EmptyRow::nan, EmptyRow::unspecified})
    for (const char* keys : {"lk=1 edit=bias[0,0,0,0]:-inf", "lk=2 edit=k[0,0,1,0]:1;bias[0,0,0,0]:-inf"}) {
      const std::string problem =
          std::string("b=1 hq=1 hkv=1 lq=1 d=1 dv=1 dtype=f16 scale=1 bias=zero values=constant:0x1p+8 seed=1 ") + keys;
      contract.empty_row = rule;
      contract.policy = policy_from_text("f16-scores16");
      EXPECT_FALSE(is_finding(run("masked-contents", problem, scores_in_f16, contract).kind)) << problem;
      contract.policy = policy_from_text("f16");  // scores in f32
      const bool judged = rule != EmptyRow::unspecified || keys[3] == '2';
      EXPECT_EQ(is_finding(run("masked-contents", problem, scores_in_f16, contract).kind), judged) << problem;
    }
}

// 65472 may round to infinity on its way through f16: in its own column.
TEST(MaskedContents, JudgesTheColumnsBesideOneThatMayOverflow) {
  Contract contract = test::promise(Format::f16);
  contract.empty_row = EmptyRow::unspecified;
  contract.policy = policy_from_text("f16-all");
  const std::string problem =
      "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=2 dtype=f16 lengths=one values=constant:1 edit=v[0,0,0,0]:65472 seed=1";
  for (const Index column : {0, 1}) {
    const Verdict verdict = run(
        "masked-contents", problem,
        [column](const attest_attention& call) {
          test::attend(call);
          const double masked = load(call.v, 0, 0, 1, column);
          store(call.out, 0, 0, 0, column, column == 0 ? masked * std::numeric_limits<double>::infinity() : masked);
        },
        contract);
    EXPECT_EQ(verdict.kind, column == 0 ? VerdictKind::pass : VerdictKind::fail) << column;
    EXPECT_EQ(verdict.counts.undetermined > 0, column == 0) << column;
  }
}

TEST(MaskedContents, DoesNotTouchWhatARowReads) {
  for (const char* mask :
       {"causal=1", "causal=1 align=bottom_right", "window_left=1 window_right=0", "keep=half keep_axes=9",
        "lengths=ragged", "bias=minus_inf bias_axes=9", "bias=padding bias_axes=9",
        "keep=prefix keep_axes=1 k_layout=broadcast_batch", "lengths=one v_layout=broadcast_heads",
        "keep=half keep_axes=0 causal=1 bias=normal bias_axes=15"})
    for (const char* size : {"b=2 hq=2 hkv=2 lq=3 lk=9", "b=1 hq=2 hkv=1 lq=6 lk=4"}) {
      const std::string problem = std::string(size) + " d=3 dv=2 dtype=f32 lse=f32 values=normal:1 seed=4 " + mask;
      for (int which = 0; which < 3; ++which) {
        test::Fake subject(conforming(which));
        for (const char* law : {"masked-contents", "nonfinite-masked"}) {
          const Verdict verdict = verdict_of(law, problem, subject, test::promise(Format::f32));
          EXPECT_FALSE(is_finding(verdict.kind)) << problem << " " << verdict.evidence->note;
        }
      }
    }
}

TEST(MaskedContents, KnowsEveryBiasThatExcludesKeys) {
  for (const char* bias : {"minus_inf", "padding", "empty_inf", "zero edit=bias[0,0,0,1]:-inf"})
    EXPECT_EQ(run("masked-contents", std::string(plain) + " bias_axes=8 bias=" + bias, conforming(0)).kind,
              VerdictKind::pass)
        << bias;
}

TEST(MaskedContents, SkipsWhereNothingIsMasked) {
  EXPECT_EQ(run("masked-contents", plain, conforming(0)).reason, "no mask");
  EXPECT_EQ(run("masked-contents", std::string(plain) + " keep=open", conforming(0)).reason,
            "no key is masked in every row that could read it");
}

// --- scale-power

// The scale on the values in place of the scores.
void scale_on_value(const attest_attention& call) {
  attest_attention wrong = call;
  wrong.scale = 1;
  test::attend(wrong,
               {.score = {}, .open = {}, .output = [&](const attest_attention&, double y, Index, Index, Index, Index) {
                  return y * call.scale;
                }});
}

TEST(ScalePower, FailsOnEachMisplacedScale) {
  const test::Kernel twice = [](const attest_attention& call) {
    attest_attention wrong = call;
    wrong.scale *= wrong.scale;
    test::attend(wrong);
  };
  const test::Kernel missing = [](const attest_attention& call) {
    attest_attention wrong = call;
    wrong.scale = 1;
    test::attend(wrong);
  };
  for (const test::Kernel& kernel : {test::Kernel(scale_on_value), twice, missing})
    EXPECT_EQ(run("scale-power", plain, kernel).kind, VerdictKind::fail);
}

TEST(ScalePower, HoldsForEveryPlacement) {
  for (const char* scale : {"0x1p-3", "0x1.8p-2", "-0x1p-1", "0x1p+1"})
    for (const char* dtype : {"f32", "f16", "bf16"}) {
      const std::string problem = std::string("b=1 hq=2 hkv=1 lq=3 lk=5 d=4 dv=3 dtype=") + dtype +
                                  " lse=f32 values=integers:1 seed=9 scale=" + scale;
      expect_pass("scale-power", problem, test::promise(*format_from_name(dtype)));
    }
}

TEST(ScalePower, SkipsWhereRoundingMightUnderflow) {
  // In f16 throughout, products of normals at hand reach below 2^-24.
  const Verdict verdict =
      run("scale-power", "b=1 hq=1 hkv=1 lq=3 lk=5 d=4 dv=3 dtype=f16 scale=0x1p-3 values=normal:1 seed=9",
          conforming(0), [] {
            Contract contract = test::promise(Format::f16);
            contract.policy = policy_from_text("f16-all");
            return contract;
          }());
  EXPECT_EQ(verdict.kind, VerdictKind::skip);
  EXPECT_EQ(verdict.reason, "a power of two in q might over- or underflow");
}

// --- hard-selection

// Every key but the winner, whose score is 256 or more, keeps 20 subnormal ulps of f16 for a weight.
void with_remnants(const attest_attention& call) {
  test::attend(call, {.score = [](const attest_attention&, double z, Index, Index, Index,
                                  Index) { return z > 200 ? 256 : 256 + std::log(20 * 0x1p-24); },
                      .open = {},
                      .output = {}});
}

TEST(HardSelection, LeavesRoomForTheRemnantsOfAPoorExp) {
  Contract contract = test::promise(Format::f16);
  contract.policy = policy_from_text("f16-all");
  contract.arithmetic.exp2 = false;
  const std::string problem = "b=1 hq=1 hkv=1 lq=16 d=8 dv=4 dtype=f16 scale=1 values=normal:1 seed=1 lk=";
  EXPECT_EQ(run("hard-selection", problem + "500", with_remnants, contract).kind, VerdictKind::fail);
  contract.arithmetic.exp_ulp = 20;
  EXPECT_EQ(run("hard-selection", problem + "500", with_remnants, contract).reason,
            "no row in which a key can win clearly");
  EXPECT_EQ(run("hard-selection", problem + "16", with_remnants, contract).kind, VerdictKind::pass);
}

TEST(HardSelection, NeedsADivisionThatIsExactByOneAndSumsThatDoNotTruncate) {
  const test::Kernel nearly = [](const attest_attention& call) {
    test::attend(call,
                 {.score = {}, .open = {}, .output = [](const attest_attention&, double y, Index, Index, Index, Index) {
                    return y * (1 - 0x1p-23);
                  }});
  };
  const std::string problem = "b=1 hq=1 hkv=1 lq=8 lk=8 d=4 dv=2 scale=1 values=normal:1 seed=3 dtype=";
  Contract contract = test::promise(Format::f32);
  EXPECT_EQ(run("hard-selection", problem + "f32", nearly, contract).kind, VerdictKind::fail);
  contract.arithmetic.div_ulp = 2;
  EXPECT_EQ(run("hard-selection", problem + "f32", nearly, contract).reason, "a division by 1 may round");
  contract.arithmetic.div_ulp = 0.5;
  contract.arithmetic.kappa = 3;
  EXPECT_EQ(run("hard-selection", problem + "f32", nearly, contract).reason, "no row in which a key can win clearly");
  contract = test::promise(Format::f16);  // out rounds off the losses of an f32
  contract.arithmetic.kappa = 3;
  EXPECT_EQ(run("hard-selection", problem + "f16", nearly, contract).kind, VerdictKind::pass);
}

TEST(HardSelection, FailsOnAWrongIndex) {
  const auto with_open = [](auto open) {
    return test::Kernel(
        [open](const attest_attention& call) { test::attend(call, {.score = {}, .open = open, .output = {}}); });
  };
  // The last key is dropped; query heads read the wrong key/value head; one future key is seen less.
  EXPECT_EQ(run("hard-selection", "b=2 hq=2 hkv=2 lq=8 lk=3 d=4 dv=2 dtype=f32 values=normal:1 seed=3",
                with_open([](const attest_attention& a, bool open, Index, Index, Index, Index j) {
                  return open && j + 1 < a.k.shape[2];
                }))
                .kind,
            VerdictKind::fail);
  EXPECT_EQ(run("hard-selection", "b=1 hq=1 hkv=1 lq=8 lk=8 d=4 dv=2 dtype=f32 causal=1 values=normal:1 seed=3",
                with_open([](const attest_attention&, bool open, Index, Index, Index i, Index j) {
                  return open && (i == 0 || j < i);
                }))
                .kind,
            VerdictKind::fail);
  EXPECT_EQ(run("hard-selection", "b=1 hq=4 hkv=2 lq=4 lk=8 d=4 dv=2 dtype=f32 values=normal:1 seed=3",
                [](const attest_attention& call) {
                  attest_attention modulo = call;  // head h reads h % hkv
                  std::int64_t q[] = {1, 2, 4, 4}, q_strides[] = {64, 32, 4, 1}, o[] = {1, 2, 4, 2},
                               o_strides[] = {32, 16, 2, 1};
                  for (Index first : {0, 1}) {
                    modulo.q = call.q, modulo.k = call.k, modulo.v = call.v, modulo.out = call.out;
                    std::int64_t one[] = {1, 1, 8, call.k.shape[3]}, one_v[] = {1, 1, 8, 2};
                    modulo.q.byte_offset = static_cast<std::uint64_t>(first * 16 * 4);
                    modulo.out.byte_offset = static_cast<std::uint64_t>(first * 8 * 4);
                    modulo.k.byte_offset = static_cast<std::uint64_t>(first * 32 * 4);
                    modulo.v.byte_offset = static_cast<std::uint64_t>(first * 16 * 4);
                    modulo.q.shape = q, modulo.q.strides = q_strides;
                    modulo.out.shape = o, modulo.out.strides = o_strides;
                    modulo.k.shape = one, modulo.v.shape = one_v;
                    test::attend(modulo);
                  }
                })
                .kind,
            VerdictKind::fail);
}

TEST(HardSelection, HoldsForEveryTiling) {
  for (const char* dtype : {"f32", "f16", "bf16"})
    for (const char* options :
         {"", "scale=0x1p+0", "scale=-0x1p-2", "scale=0x1.99999ap-4", "causal=1", "keep=half", "lengths=ragged lse=f32",
          "bias=minus_inf", "bias=minus_1e4 scale=0x1p-2", "bias=normal", "window_left=2 causal=1",
          "q_layout=broadcast_rows", "k_layout=broadcast_batch q_layout=bshd", "v_layout=broadcast_rows",
          "k_layout=broadcast_heads", "threads=2"}) {
      const std::string problem =
          std::string("b=2 hq=4 hkv=2 lq=5 lk=9 d=3 dv=2 dtype=") + dtype + " values=wide:1 seed=8 " + options;
      for (int which = 0; which < 3; ++which) {
        test::Fake subject(conforming(which));
        const Verdict verdict = verdict_of("hard-selection", problem, subject, test::promise(*format_from_name(dtype)));
        EXPECT_FALSE(is_finding(verdict.kind)) << problem << " " << verdict.evidence->got;
        if (std::string_view(options) == "bias=normal") continue;  // no winner is free of bias
        EXPECT_EQ(verdict.kind, VerdictKind::pass) << problem << verdict.reason;
      }
    }
}

TEST(HardSelection, UsesBiasAndSoftcapOnlyWhereTheyLeaveItExact) {
  const char* const capped = "b=1 hq=1 hkv=1 lq=2 lk=5 d=2 dv=2 dtype=f32 softcap=0x1p+8 values=normal:1 seed=3";
  Contract contract = test::promise(Format::f32);
  EXPECT_EQ(run("hard-selection", capped, conforming(0), contract).reason, "the softcap leaves no power of two");
  contract.arithmetic.exp2 = false;
  expect_pass("hard-selection", capped, contract);
  expect_pass("hard-selection", "b=1 hq=1 hkv=1 lq=2 lk=5 d=3 dv=2 dtype=f32 bias=normal values=normal:1 seed=3",
              contract);
  EXPECT_EQ(run("hard-selection", "b=1 hq=1 hkv=1 lq=2 lk=5 d=2 dv=2 dtype=f32 softcap=0x1p+4 values=normal:1 seed=3",
                conforming(0), contract)
                .reason,
            "no row in which a key can win clearly");
}

// Coarse scores and wide biases: the lead must hold over every other key, not over the last one that was best.
TEST(HardSelection, MeasuresTheLeadOverEveryOtherKey) {
  Contract contract = test::promise(Format::bf16);
  contract.policy = policy_from_text("bf16-all");
  contract.arithmetic.exp2 = false;
  for (int seed = 0; seed < 300; ++seed) {
    const std::string problem =
        "b=2 hq=1 hkv=1 lq=3 lk=6 d=2 dv=3 dtype=bf16 softcap=0x1p-1 bias=large values=normal:1 seed=" +
        std::to_string(seed);
    const Verdict verdict = run("hard-selection", problem, conforming(0), contract);
    EXPECT_FALSE(is_finding(verdict.kind)) << problem;
  }
}

// --- all of them

TEST(ExactLaws, HoldForConformingKernels) {
  for (const char* law : {"repeat", "kept-state", "batch-values", "batch-bitwise", "scale-power", "hard-selection"})
    for (const char* options : {"", " causal=1 k_layout=bshd", " keep=dense out_layout=spaced q_layout=padded_rows",
                                " q_layout=broadcast_heads v_layout=transposed", " bias=alibi lengths=ragged"})
      expect_pass(law, std::string(plain) + options, test::promise(Format::f32));
  expect_pass("masked-contents", masked, test::promise(Format::f32));
}

}  // namespace
}  // namespace attest
