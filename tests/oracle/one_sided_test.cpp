// Kernels that keep their contract and err as far as it lets them, to one side or in step: the statistical tiers must know of
// it. Each case once needed a lambda above 5.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"
#include "oracle/calibration.hpp"
#include "oracle/series.hpp"

namespace attest {
namespace {

using emulator::Error;
using emulator::Normalise;
using emulator::Order;
using emulator::ScaleOn;
using emulator::Variant;

struct Case {
  std::string policy, contract, problem;
  std::function<void(Inputs&)> fill;
  std::function<void(Variant&)> kernel;
};

struct Judged {
  double lambda = 0, t = 0, slow_t = 0;
  Index elements = 0;
  VerdictKind rigorous = VerdictKind::pass;
};

Judged judge(const Case& c) {
  const Contract contract = contract_from_text(c.contract, policy_from_text(c.policy));
  const Problem problem = problem_from_text(c.problem);
  Inputs inputs = materialise(problem);
  if (c.fill) c.fill(inputs);
  Variant variant;
  variant.normalise = Normalise::after;
  c.kernel(variant);
  Tensor out = make_out(problem), lse = make_lse(problem);
  emulator::run(inputs, contract, variant, out, lse);
  oracle::AttentionOracle oracle(contract, problem, inputs);
  oracle::Statistics statistics;
  Judged result;
  result.rigorous = oracle.judge(out, lse, &statistics).kind;
  result.t = statistics.t();
  result.slow_t = oracle.slow_t(out);
  for (const Index flat : judged_rows(problem)) {
    const RowIndex r = row_index(problem, flat);
    for (Index column = 0; column < problem.dv; ++column) {
      const double lambda = oracle.lambda_needed(r.b, r.h, r.i, column, problem.dtype, out.at(r.b, r.h, r.i, column));
      if (std::isnan(lambda)) continue;
      ++result.elements;
      result.lambda = std::max(result.lambda, lambda);
    }
  }
  return result;
}

void expect_conforming(const Case& c) {
  const Judged result = judge(c);
  EXPECT_NE(result.rigorous, VerdictKind::fail);
  EXPECT_GT(result.elements, 0);
  EXPECT_LE(result.lambda, 4);
}

void fill(Tensor& tensor, const std::function<double(Index row, Index column)>& value) {
  const auto shape = tensor.shape();
  for (Index b = 0; b < shape[0]; ++b)
    for (Index h = 0; h < shape[1]; ++h)
      for (Index i = 0; i < shape[2]; ++i)
        for (Index c = 0; c < shape[3]; ++c) tensor.set(b, h, i, c, value(i, c));
}

// Of a weight far below the least number, an exp that may be off by an ulp makes that number.
TEST(OneSided, ExpMakesASubnormalOfNothing) {
  expect_conforming({"f16-softmax16", "{}", "lq=1 lk=2 d=1 dv=1 dtype=f16 scale=1 values=constant:1",
                     [](Inputs& in) {
                       fill(in.q, [](Index, Index) { return 1; });
                       fill(in.k, [](Index j, Index) { return j == 0 ? 0 : -24; });
                       fill(in.v, [](Index j, Index) { return j == 0 ? 0 : 1; });
                     },
                     [](Variant& v) { v.exp_error = Error::up; }});
}

// Every other value has the other sign: interleaved lanes each add those of one sign.
TEST(OneSided, LanesMeetOneSignEach) {
  expect_conforming({"f32", "{}", "lq=2 lk=4096 d=4 dv=8 dtype=f32 values=normal:0.25 seed=1",
                     [](Inputs& in) {
                       const Tensor noise = in.v.clone();
                       for (Index j = 0; j < 4096; ++j)
                         for (Index c = 0; c < 8; ++c)
                           in.v.set(0, 0, j, c, (j % 2 == 0 ? 1 : -1) * (1 + 0.3 * std::fabs(noise.at(0, 0, j, c))));
                     },
                     [](Variant& v) { v.pv = Order::lanes; }});
}

// A score whose products cancel only at the end.
TEST(OneSided, RunningSumsOfAScoreGrowBeforeTheyCancel) {
  expect_conforming({"f32", R"({"exp2":false,"fold":"none"})",
                     "lq=4 lk=8 d=256 dv=8 dtype=f32 scale=1 values=normal:0.015625 seed=3",
                     [](Inputs& in) {
                       const Tensor noise = in.k.clone();
                       fill(in.q, [](Index, Index c) { return 4 + 0.01 * static_cast<double>(c % 7); });
                       for (Index j = 0; j < 8; ++j)
                         for (Index c = 0; c < 256; ++c)
                           in.k.set(0, 0, j, c, (c < 128 ? 4 : -4) + noise.at(0, 0, j, c));
                     },
                     [](Variant& v) { v.qk = Order::forward; }});
}

TEST(OneSided, ABiasIsRoundedAsItIsBroughtToTheUnitOfLog2E) {
  for (const char* seed : {"1", "2", "3", "4"})
    expect_conforming({"f32,scale=bf16",
                       "{}",
                       std::string("lq=4 lk=3 d=4 dv=4 dtype=f32 bias=normal values=normal:0.015625 seed=") + seed,
                       {},
                       [](Variant& v) { v.exp2 = v.in_octaves = true, v.scale_on = ScaleOn::q; }});
}

// One rounded scale serves all keys.
TEST(OneSided, ARoundedScaleMovesAllScoresAlike) {
  expect_conforming({"f32,scale=bf16", R"({"exp2":false,"fold":"none"})",
                     "lq=1 lk=512 d=1 dv=2 dtype=f32 scale=0x1.017p+0 values=constant:1",
                     [](Inputs& in) {
                       fill(in.q, [](Index, Index) { return 1; });
                       fill(in.k, [](Index j, Index) { return static_cast<double>(j) / 512; });
                       fill(in.v, [](Index j, Index) { return static_cast<double>(j) / 512; });
                     },
                     [](Variant&) {}});
}

TEST(OneSided, QuotientsErrOneByOne) {
  for (const char* seed : {"1", "2", "3"})
    expect_conforming({"f32",
                       R"({"normalise":"before","div_ulp":64,"lse_merge":"none"})",
                       std::string("lq=4 lk=16 d=8 dv=64 dtype=f32 values=normal:1 seed=") + seed,
                       {},
                       [](Variant& v) { v.normalise = Normalise::before, v.div_error = Error::scattered; }});
}

// Of keys with one score each quotient is off by all that a poor division may be, to a side of its own: chance lets a few rows of
// thousands have most of them on the side of their values, and many such results are no drift.
TEST(OneSided, QuotientsOfEqualWeightsErrEitherWay) {
  const Contract contract =
      contract_from_text(R"({"normalise":"before","div_ulp":1024,"lse_merge":"none"})", policy_from_text("f32"));
  const Problem problem =
      problem_from_text("b=64 lq=16 lk=64 d=1 dv=4 dtype=f32 values=normal:1 q_form=zero k_form=zero seed=7");
  const Inputs inputs = materialise(problem);
  Tensor out = make_out(problem);
  for (Index b = 0; b < problem.b; ++b)
    for (Index i = 0; i < problem.lq; ++i)
      for (Index c = 0; c < problem.dv; ++c) {
        double sum = 0;
        for (Index j = 0; j < problem.lk; ++j) {
          const auto row = static_cast<std::uint64_t>(b * problem.lq + i);
          const bool up = mix(extend(row, static_cast<std::uint64_t>(j))) % 2 == 0;
          sum += (up ? 1 + 2046 * 0x1p-24 : 1 - 2046 * 0x1p-24) / 64 * inputs.v.at(b, 0, j, c);
        }
        out.set(b, 0, i, c, sum);
      }
  oracle::AttentionOracle oracle(contract, problem, inputs);
  oracle::Statistics statistics;
  EXPECT_EQ(oracle.judge(out, {}, &statistics).kind, VerdictKind::pass);
  EXPECT_LE(statistics.t(), oracle::shipped_calibration().thresholds(contract.policy, problem).t.value());
  double largest = 0;
  for (Index b = 0; b < problem.b; ++b)
    for (Index i = 0; i < problem.lq; ++i)
      for (Index c = 0; c < problem.dv; ++c)
        largest = std::max(largest, oracle.lambda_needed(b, 0, i, c, Format::f32, out.at(b, 0, i, c)));
  EXPECT_GT(largest, 1);
  EXPECT_LE(largest, 4);
}

// Weights near 1/255 lie about a midpoint of bf16, and those near 1/2047 about one of f16: each is off by half an ulp, to the side
// that its score says.
TEST(OneSided, WeightsAboutAMidpointAreOffByHalfAnUlpEach) {
  struct Midpoint {
    const char *policy, *problem;
  };
  for (const Midpoint at : {Midpoint{"f16-all,score=f32,softmax=f32,pv=f32,scale=f32,qk=f32,weights=bf16", "b=64 lk=255"},
                            Midpoint{"f32,weights=f16", "b=16 lk=2047"}})
    for (const char* seed : {"1", "2", "3"}) {
      SCOPED_TRACE(std::string(at.problem) + " seed " + seed);
      const Judged result = judge({at.policy,
                                   R"({"normalise":"before","lse_merge":"none"})",
                                   std::string(at.problem) + " lq=1 d=1 dv=8 dtype=f32 values=uniform:0.005 seed=" + seed,
                                   {},
                                   [](Variant& v) { v.normalise = Normalise::before; }});
      EXPECT_NE(result.rigorous, VerdictKind::fail);
      EXPECT_GT(result.elements, 100);
      EXPECT_LE(result.lambda, 4);
      EXPECT_LE(result.slow_t, 1.1);
    }
}

// 2^-25 is a tie between 0 and the smallest number of f16: scores are all of 0, or of twice what they should be.
TEST(OneSided, ASubnormalScaleIsOffByAllOfItself) {
  const Judged result = judge({"f16-scores16",
                               R"({"fold":"none","exp2":false,"lse_merge":"none"})",
                               "b=16 hq=1 hkv=1 lq=1 lk=7 d=8 dv=8 dtype=f16 scale=0x1p-25 lse=f32 values=ends:1 "
                               "k_form=short_significand seed=1151191409",
                               {},
                               [](Variant&) {}});
  EXPECT_NE(result.rigorous, VerdictKind::fail);
  EXPECT_GT(result.elements, 0);
  EXPECT_LE(result.lambda, 2);
  EXPECT_LE(result.slow_t, 1);
}

// Of 512 keys, 0 to 2 in an order that sets no new maximum from either end: rescalings err too, alike.
double score_at(Index j) { return j == 0 || j == 511 ? 2 : static_cast<double>(j * 197 % 512) / 256; }

// Values that follow the scores meet all of an exp's error that changes its sign once.
TEST(OneSided, ExpIsOffOneWayUpToAnArgumentAndTheOtherBeyond) {
  expect_conforming({"f32", R"({"exp_ulp":64,"exp2":false})",
                     "lq=1 lk=512 d=1 dv=2 dtype=f32 scale=1 values=constant:1",
                     [](Inputs& in) {
                       fill(in.q, [](Index, Index) { return 1; });
                       fill(in.k, [](Index j, Index) { return score_at(j); });
                       fill(in.v, [](Index j, Index) { return score_at(j) < 1.3 ? -1 : 1; });
                     },
                     [](Variant& v) { v.exp_error = Error::stepped; }});
}

// So with tanh, and T is no larger for it once it is looked at again.
TEST(OneSided, TanhIsOffOutwards) {
  for (const Error error : {Error::outwards, Error::inwards, Error::up, Error::down}) {
    const Case rising{"f32", R"({"tanh_ulp":64})",
                      "lq=1 lk=512 d=1 dv=2 dtype=f32 scale=1 softcap=0x1p+1 values=constant:1",
                      [](Inputs& in) {
                        fill(in.q, [](Index, Index) { return 1; });
                        fill(in.k, [](Index j, Index) { return score_at(j); });
                        fill(in.v, [](Index j, Index) { return score_at(j); });
                      },
                      [&](Variant& v) { v.tanh_error = error; }};
    expect_conforming(rising);
  }
}

// Of two keys with the same score the first is off by all that tanh may be, and the other by as much to the other side.
TEST(OneSided, TanhIsOffEitherWayOfEqualScores) {
  const Contract contract =
      contract_from_text(R"({"tanh_ulp":1000,"softcap_before_bias":false})", policy_from_text("f64"));
  const Problem problem = problem_from_text(
      "b=2 lq=16 lk=2 d=1 dv=4 dtype=f64 softcap=0x1.618p+4 values=duplicated:1 q_form=one k_form=one seed=3195964563");
  const Inputs inputs = materialise(problem);
  const double cap = problem.softcap, capped = std::tanh(1 / cap);
  const double off = 999 * std::ldexp(1.0, std::ilogb(capped) - 52) * cap;
  Tensor out = make_out(problem);
  for (Index b = 0; b < 2; ++b)
    for (Index i = 0; i < 16; ++i)
      for (Index c = 0; c < 4; ++c) {
        const double first = inputs.v.at(b, 0, 0, c), second = inputs.v.at(b, 0, 1, c);
        out.set(b, 0, i, c, (first + second) / 2 + off * (first - second) / 2);
      }
  oracle::AttentionOracle oracle(contract, problem, inputs);
  EXPECT_EQ(oracle.judge(out, {}).kind, VerdictKind::pass);
  EXPECT_LE(oracle.slow_t(out), oracle::shipped_calibration().thresholds(contract.policy, problem).t.value());
}

// So in every row: two keys move a mean by the sum of their errors, whatever their signs, which T would take for large noise.
TEST(OneSided, TwoKeysOfEqualScoresAreNoNoise) {
  const Contract contract =
      contract_from_text(R"({"tanh_ulp":1000,"exp2":false,"lse_merge":"none"})", policy_from_text("f32"));
  const Problem problem =
      problem_from_text("b=32 lq=1 lk=2 d=1 dv=4 dtype=f32 scale=1 softcap=0x1p+0 values=constant:1");
  Inputs inputs = materialise(problem);
  fill(inputs.q, [](Index, Index) { return 1; });
  fill(inputs.k, [](Index, Index) { return 0.5625; });  // tanh is a little more than 1/2, where an ulp is most of it
  const auto value = [](Index j, Index c) { return static_cast<double>(j == 0 ? c : -1 - c); };
  fill(inputs.v, value);
  // Scores are off by 1,000 ulp, one up and one down.
  const double up = 1 / (1 + std::exp(-2000 * 0x1p-24));
  Tensor out = make_out(problem);
  fill(out, [&](Index, Index c) { return up * value(0, c) + (1 - up) * value(1, c); });
  oracle::AttentionOracle oracle(contract, problem, inputs);
  oracle::Statistics statistics;
  EXPECT_EQ(oracle.judge(out, {}, &statistics).kind, VerdictKind::pass);
  EXPECT_GE(statistics.elements, oracle::least_elements);
  EXPECT_LE(oracle.slow_t(out), 0.5);
}

// Of the results of such a kernel most lie above the 99 % quantile of their class, which takes the errors of functions for
// noise. Drift takes a second look.
TEST(OneSided, TanhIsNoDrift) {
  constexpr int results = 60;
  int first = 0, second = 0;
  for (int seed = 1; seed <= results; ++seed) {
    const Case c{"f32",
                 R"({"tanh_ulp":256})",
                 "lq=40 lk=6 d=8 dv=8 dtype=f32 softcap=0x1p-1 values=normal:1 seed=" + std::to_string(seed),
                 {},
                 [](Variant& v) { v.tanh_error = Error::outwards; }};
    const Judged result = judge(c);
    const oracle::Thresholds thresholds =
        oracle::shipped_calibration().thresholds(policy_from_text(c.policy), problem_from_text(c.problem));
    ASSERT_NE(thresholds.cell, nullptr);
    first += result.t > thresholds.cell->t99;
    second += std::min(result.t, result.slow_t) > thresholds.cell->t99;
    EXPECT_LE(std::min(result.t, result.slow_t), thresholds.t.value());
  }
  EXPECT_GT(first, results / 2);
  EXPECT_LE(second, results / 100 + 1);
}

// The lambda that one value of a call would need.
class Needed {
 public:
  Needed(std::string_view policy, std::string_view contract, std::string_view problem)
      : contract_(contract_from_text(contract, policy_from_text(policy))),
        problem_(problem_from_text(problem)),
        inputs_(materialise(problem_)),
        oracle_(contract_, problem_, inputs_) {}
  double operator()(const RowIndex& r, Index column, double value) {
    return oracle_.lambda_needed(r.b, r.h, r.i, column, problem_.dtype, value);
  }

 private:
  Contract contract_;
  Problem problem_;
  Inputs inputs_;
  oracle::AttentionOracle oracle_;
};

// T, by the second look, of outputs that are off from the exact ones as `wrong` says: over its threshold.
double share_of_threshold(std::string_view policy, std::string_view promises, std::string_view fields,
                          const std::function<double(double)>& wrong) {
  const Contract contract = contract_from_text(promises, policy_from_text(policy));
  const Problem problem = problem_from_text(fields);
  const Inputs inputs = materialise(problem);
  Tensor out = make_out(problem);
  oracle::AttentionOracle oracle(contract, problem, inputs);
  for (Index b = 0; b < problem.b; ++b)
    for (Index h = 0; h < problem.hq; ++h)
      for (Index i = 0; i < problem.lq; ++i)
        for (Index c = 0; c < problem.dv; ++c)
          out.set(b, h, i, c, round_to(problem.dtype, wrong(oracle.out_enclosure(b, h, i, c).y)));
  EXPECT_NE(oracle.judge(out, {}).kind, VerdictKind::fail) << fields;
  return oracle.slow_t(out) / oracle::shipped_calibration().thresholds(contract.policy, problem).t.value();
}

// Where splits are merged by exp(lse_i - lse), that exp and those of the sum may err to either side, and no quotient takes it back.
TEST(OneSided, MergesByLogSumExpAreOffByTwoExps) {
  constexpr const char* fields = "lq=16 lk=8 d=4 dv=8 dtype=f32 values=normal:1 seed=3";
  const auto off = [&](const char* promises, double by) {
    return share_of_threshold("f32", promises, fields, [&](double y) { return y * (1 + by); });
  };
  EXPECT_LE(off(R"({"exp_rel":0.001,"merge_weights":"lse"})", 0.00199), 1);  // 1.7 where it was taken for noise
  EXPECT_LE(off(R"({"exp_rel":0.001,"normalise":["lse"]})", 0.00199), 1);
  EXPECT_LE(off(R"({"exp_rel":0.001,"normalise":["lse"]})", -0.00199), 1);
  EXPECT_GT(off(R"({"exp_rel":0.001,"merge_weights":"lse"})", 0.0047), 1);
}

// The quotients of splits and that of their sum, each off by eight subnormals to one side.
TEST(OneSided, DivisionsOfMergedSplitsAmongSubnormals) {
  constexpr double least = 0x1p-133;  // of bf16
  const auto off = [&](double steps) {
    return share_of_threshold("bf16-all", R"({"div_ulp":8})",
                              "b=8 lq=4 lk=8 d=2 dv=6 dtype=bf16 values=tiny:1 v_form=power_of_two seed=5",
                              [&](double y) { return y + steps * least; });
  };
  EXPECT_LE(off(16), 1);
}

// The first tile has masked keys alone: 2^x of their own maximum, past what f16 resolves, is 16 instead of 1, and the factor that
// should make nothing of it is the least subnormal.
TEST(OneSided, AWrongShiftIsBroughtDownBySubnormals) {
  Needed needed(
      "storage=f16,operand=f16,scale=f32,qk=f32,score=f32,softcap=f16,softmax=f16,weights=f16,pv=f32,partial=f32,"
      "output=bf16",
      R"({"exp2":true,"lazy":1,"splits_max":64})",
      "op=attention b=1 hq=1 hkv=1 lq=1 lk=4 d=1 dv=1 dtype=f16 scale=0x1.8p-2 keep=sparse keep_axes=8 "
      "bias=minus_1e4 values=integers:2 seed=775284155 b0=1 lq0=9 dv0=1 "
      "edit=k[0,0,0,0]:0x0p+0;k[0,0,1,0]:0x0p+0;k[0,0,2,0]:0x0p+0;v[0,0,1,0]:0x0p+0");
  EXPECT_LE(needed({}, 0, 3.0994415283203125e-06), 4);
}

// A weight of two subnormals of f16 that a poor division makes 204 larger.
TEST(OneSided, AQuotientAmongSubnormalsIsOffByUlpsOfThese) {
  Needed needed("f16-softmax16", R"({"div_ulp":204.8,"normalise":["before"]})",
                "lq=1 lk=2 d=1 dv=1 dtype=f16 scale=0x1p+0 values=constant:1 "
                "edit=k[0,0,0,0]:0x1p+4;k[0,0,1,0]:0x0p+0;v[0,0,0,0]:0x0p+0");
  EXPECT_LE(needed({}, 0, (2 + 204) * 0x1p-24), 2);
  EXPECT_GT(needed({}, 0, (2 + 2040) * 0x1p-24), 5);
}

// s/c is the smallest subnormal of the softcap's format, and tanh four of these too much.
TEST(OneSided, ATanhAmongSubnormalsIsOffByUlpsOfThese) {
  Needed needed("f32,softcap=f16", "{}",
                "lq=1 lk=2 d=1 dv=1 dtype=f32 scale=0x1p+0 softcap=0x1p+5 values=constant:1 "
                "edit=k[0,0,0,0]:0x1p-19;k[0,0,1,0]:0x0p+0;v[0,0,1,0]:0x0p+0");
  const auto off_by = [&](double steps) {
    const double off = steps * 0x1p-24 * 32 / 4;  // of the mean of 1 and 0
    return needed({}, 0, round_to(Format::f32, 0.5 + 0x1p-19 / 4 + off));
  };
  EXPECT_LE(off_by(4), 2);
  EXPECT_GT(off_by(100), 5);
}

// A q that carries the scale is rounded so far that scores move by nats: weights do not act linearly, though no k is scaled.
TEST(OneSided, ARoundedQueryAloneMovesWeightsOutOfTheLinear) {
  Needed needed("bf16", R"({"fold":["q"],"exp2":false,"lazy":0,"lse_merge":"none","normalise":["after"]})",
                "b=16 hq=8 hkv=1 lq=4 lk=5 d=5 dv=5 dtype=bf16 scale=-0x1.9a374ep+0 softcap=0x1p+2 causal=1 "
                "align=bottom_right lengths=ragged values=large_integers:1 seed=4186392876");
  EXPECT_LE(needed({10, 6, 2}, 2, 10.375), 4);  // 12 where only folding into k counted
}

TEST(Prefixes, TakeEveryOrderInWhichLanesAdd) {
  const oracle::Prefixes rising = oracle::prefixes(std::vector<double>{0, 0, 0, 1});
  EXPECT_EQ(rising.squares, 1);
  EXPECT_EQ(rising.prefix_squares, 4);  // from the last on
  const oracle::Prefixes alternating = oracle::prefixes(std::vector<double>{1, -1, 1, -1, 1, -1});
  EXPECT_EQ(alternating.prefix_squares, 2 * (1 + 4 + 9));  // in two lanes
  EXPECT_EQ(alternating.largest, 3);
  EXPECT_EQ(oracle::prefixes({}).prefix_squares, 0);
}

TEST(OneSidedErrors, ChangeTheirSignOnceAtMostAndNotBetweenEqualArguments) {
  const std::vector<Index> order{0, 1, 2};
  EXPECT_EQ(oracle::one_sided(std::vector<double>{1, 2, -4}, order, std::vector<double>{1, 2, 3}), 7);
  EXPECT_EQ(oracle::one_sided(std::vector<double>{1, 2, -4}, order, std::vector<double>{1, 2, 2}), 3);
  EXPECT_EQ(oracle::one_sided(std::vector<double>{1, 2, -4}, order, std::vector<double>{1, 1, 1}), 1);
}

}  // namespace
}  // namespace attest
