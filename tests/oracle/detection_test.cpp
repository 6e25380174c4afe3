// What the oracle must find: values just outside, planted defects at short rows, wrong classes, broken rules.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"
#include "oracle/outcome.hpp"
#include "tests/oracle/draw.hpp"

namespace attest {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

Problem short_rows(Format dtype) {
  Problem p;
  p.b = p.hq = p.hkv = 2;
  p.lq = 4;
  p.lk = 6;
  p.d = 8;
  p.dv = 4;
  p.dtype = dtype;
  p.lse = LseOutput::f32;
  p.seed = 11;
  return p;
}

struct Trial {
  explicit Trial(const Problem& the_problem, const Contract& the_contract, emulator::Variant variant = {})
      : problem(the_problem), contract(the_contract), inputs(materialise(problem)) {
    make(variant);
  }
  Trial(const Problem& the_problem, const Contract& the_contract, const std::function<void(Inputs&)>& change)
      : problem(the_problem), contract(the_contract), inputs(materialise(problem)) {
    change(inputs);
    make({});
  }
  void make(const emulator::Variant& variant) {
    out = make_out(problem);
    lse = make_lse(problem);
    emulator::run(inputs, contract, variant, out, lse);
  }
  Verdict judge() const { return oracle::AttentionOracle(contract, problem, inputs).judge(out, lse); }
  Verdict judge_slowly() const { return oracle::AttentionOracle(contract, problem, inputs).judge_slowly(out, lse); }

  Problem problem;
  Contract contract;
  Inputs inputs;
  Tensor out, lse;
};

class EveryPolicy : public ::testing::TestWithParam<std::size_t> {
 protected:
  const NamedPolicy& named = named_policies()[GetParam()];
  const Format dtype = named.policy[Stage::storage];
};

TEST_P(EveryPolicy, OneStepOutsideIsFoundAndTheEdgeIsNot) {
  Trial run(short_rows(dtype), contract_for(named.policy));
  ASSERT_EQ(run.judge().kind, VerdictKind::pass);
  oracle::AttentionOracle oracle(run.contract, run.problem, run.inputs);
  const double keep = run.out.at(1, 1, 2, 3);
  const oracle::Enclosure e = oracle.out_enclosure(1, 1, 2, 3);
  for (const bool up : {false, true}) {
    const double edge = round_to(dtype, up ? e.hi : e.lo);
    double outside = edge, step = std::max(std::fabs(edge) * unit_roundoff(dtype), half_smallest_subnormal(dtype));
    while (outside == edge) outside = round_to(dtype, edge + (up ? step : -step)), step *= 1.3;
    run.out.set(1, 1, 2, 3, edge);
    EXPECT_EQ(run.judge().kind, VerdictKind::pass);
    run.out.set(1, 1, 2, 3, outside);
    const Verdict verdict = run.judge();
    ASSERT_EQ(verdict.kind, VerdictKind::fail);
    EXPECT_EQ(verdict.evidence->tensor, "out");
    EXPECT_EQ(verdict.evidence->index, (std::array<Index, 4>{1, 1, 2, 3}));
    EXPECT_EQ(verdict.evidence->wrong, Wrong::finite);
    EXPECT_EQ(verdict.evidence->got, outside);
    EXPECT_EQ(verdict.evidence->expected, round_to(dtype, e.y));
    EXPECT_GT(verdict.evidence->ratio, 0.9);
  }
  run.out.set(1, 1, 2, 3, keep);
  const oracle::Enclosure l = oracle.lse_enclosure(0, 1, 3);
  run.lse.set(0, 1, 3, 0, round_to(Format::f32, l.hi));
  EXPECT_EQ(run.judge().kind, VerdictKind::pass);
  run.lse.set(0, 1, 3, 0, std::nextafter(static_cast<float>(round_to(Format::f32, l.hi)), 1e9F));
  const Verdict verdict = run.judge();
  ASSERT_EQ(verdict.kind, VerdictKind::fail);
  EXPECT_EQ(verdict.evidence->tensor, "lse");
  EXPECT_EQ(verdict.evidence->index, (std::array<Index, 4>{0, 1, 3, 0}));
}

TEST_P(EveryPolicy, WrongClassesAreFound) {
  for (const double wrong : {nan, infinity, -infinity}) {
    Trial run(short_rows(dtype), contract_for(named.policy));
    run.out.set(0, 1, 0, 2, wrong);
    const Verdict verdict = run.judge();
    ASSERT_EQ(verdict.kind, VerdictKind::fail);
    EXPECT_EQ(verdict.evidence->wrong, std::isnan(wrong) ? Wrong::nan : Wrong::infinity);
    EXPECT_EQ(verdict.evidence->ratio, infinity);
    EXPECT_LT(verdict.counts.judged, 2 * 2 * 4 * 5);  // ends at the first
    run.make({});
    run.lse.set(1, 0, 1, 0, wrong);
    EXPECT_EQ(run.judge().kind, VerdictKind::fail);
  }
}

TEST_P(EveryPolicy, EmptyRowsFollowTheContractExactly) {
  Problem problem = short_rows(dtype);
  problem.keep = Keep::closed;
  const auto verdict_of = [&](EmptyRow rule, double value, double lse) {
    Contract contract = contract_for(named.policy);
    contract.empty_row = rule;
    Trial run(problem, contract);
    for (Index b = 0; b < problem.b; ++b)
      for (Index h = 0; h < problem.hq; ++h)
        for (Index i = 0; i < problem.lq; ++i) {
          for (Index c = 0; c < problem.dv; ++c) run.out.set(b, h, i, c, value);
          run.lse.set(b, h, i, 0, lse);
        }
    return run.judge().kind;
  };
  EXPECT_EQ(verdict_of(EmptyRow::zero, 0, -infinity), VerdictKind::pass);
  EXPECT_EQ(verdict_of(EmptyRow::zero, -0.0, -infinity), VerdictKind::pass);
  EXPECT_EQ(verdict_of(EmptyRow::zero, 2 * half_smallest_subnormal(dtype), -infinity), VerdictKind::fail);
  EXPECT_EQ(verdict_of(EmptyRow::zero, nan, -infinity), VerdictKind::fail);
  EXPECT_EQ(verdict_of(EmptyRow::zero, 0, infinity), VerdictKind::fail);
  EXPECT_EQ(verdict_of(EmptyRow::zero, 0, 0), VerdictKind::fail);
  EXPECT_EQ(verdict_of(EmptyRow::zero, 0, nan), VerdictKind::fail);
  EXPECT_EQ(verdict_of(EmptyRow::nan, nan, -infinity), VerdictKind::pass);
  EXPECT_EQ(verdict_of(EmptyRow::nan, 0, -infinity), VerdictKind::fail);
  EXPECT_EQ(verdict_of(EmptyRow::nan, infinity, -infinity), VerdictKind::fail);
  EXPECT_EQ(verdict_of(EmptyRow::unspecified, 123, -infinity), VerdictKind::pass);
  EXPECT_EQ(verdict_of(EmptyRow::unspecified, nan, 0), VerdictKind::fail);
}

TEST_P(EveryPolicy, TheMeanOfAnEmptyRowHasABound) {
  Problem problem = short_rows(dtype);
  problem.keep = Keep::closed;
  problem.lse = LseOutput::none;
  problem.lengths = Lengths::ragged;
  Contract contract = contract_for(named.policy);
  contract.empty_row = EmptyRow::mean_v;
  for (const double factor : {1.0, 1.25}) {
    Trial run(problem, contract);
    for (Index b = 0; b < problem.b; ++b)
      for (Index h = 0; h < problem.hq; ++h)
        for (Index c = 0; c < problem.dv; ++c) {
          const auto length = static_cast<Index>(run.inputs.kv_lengths.at(b));
          double mean = 0;
          for (Index j = 0; j < length; ++j) mean += run.inputs.v.at(b, h, j, c) / static_cast<double>(length);
          for (Index i = 0; i < problem.lq; ++i) run.out.set(b, h, i, c, mean * factor);
        }
    EXPECT_EQ(run.judge().kind, factor == 1 ? VerdictKind::pass : VerdictKind::fail);
  }
}

TEST_P(EveryPolicy, GrossDefectsAreFoundAtShortRows) {
  using emulator::Defect;
  for (const Defect defect :
       {Defect::last_key_dropped, Defect::extra_zero_key, Defect::value_shifted, Defect::no_rescale}) {
    if (named.name == "bf16-all" && defect == Defect::extra_zero_key) continue;  // its bound is honest and wide
    int found = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Problem problem = short_rows(dtype);
      problem.seed = seed;
      emulator::Variant variant;
      variant.tile = 2;
      variant.defect = defect;
      found += Trial(problem, contract_for(named.policy), variant).judge().kind == VerdictKind::fail;
    }
    EXPECT_GE(found, 15) << "defect " << static_cast<int>(defect);
  }
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, EveryPolicy, ::testing::Range<std::size_t>(0, 9));

TEST(Detection, OnePercentOfTheScaleIsFoundWhereStorageIsWide) {
  for (const Format dtype : {Format::f32, Format::f64, Format::f16}) {
    int found = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Problem problem = short_rows(dtype);
      problem.seed = seed;
      emulator::Variant variant;
      variant.defect = emulator::Defect::scale_one_percent;
      found += Trial(problem, contract_for(policy_for(dtype)), variant).judge().kind == VerdictKind::fail;
    }
    EXPECT_EQ(found, 20) << name(dtype);
  }
}

// A kernel that keeps a wider policy passes a narrower one; the other way round it is found.
TEST(Detection, ANarrowerPolicyThanDeclaredIsFound) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Problem problem = short_rows(Format::f16);
    problem.seed = seed;
    problem.amplitude = 2;
    const Contract narrow = contract_for(policy_from_text("f16-all")), wide = contract_for(policy_from_text("f16"));
    Trial run(problem, narrow);
    run.contract = wide;
    found += run.judge().kind == VerdictKind::fail;
    run.make({});
    run.contract = narrow;
    EXPECT_NE(run.judge().kind, VerdictKind::fail);
  }
  EXPECT_GE(found, 15);
}

TEST(Detection, TheOrderOfSoftcapAndBiasIsJudged) {
  Problem problem = short_rows(Format::f32);
  problem.softcap = 2;
  problem.bias = Bias::normal;
  problem.amplitude = 2;
  Contract first = contract_for(policy_for(Format::f32)), last = first;
  last.softcap_before_bias = false;
  for (const Contract& promised : {first, last})
    for (const Contract& kept : {first, last}) {
      Trial run(problem, kept);
      run.contract = promised;
      EXPECT_EQ(run.judge().kind, promised == kept ? VerdictKind::pass : VerdictKind::fail);
    }
}

TEST(Detection, OverflowThatThePolicyAllowsIsNotAFinding) {
  Problem problem = short_rows(Format::f16);
  problem.values = Values::constant;
  problem.amplitude = 128;  // 8 products of 2^14 overflow f16
  problem.lse = LseOutput::none;
  const auto all_nan = [&](const char* policy) {
    Trial run(problem, contract_for(policy_from_text(policy)));
    for (Index n = 0; n < run.out.size(); ++n) run.out.set(n / 32, n / 16 % 2, n / 4 % 4, n % 4, nan);
    return run.judge().kind;
  };
  EXPECT_EQ(all_nan("f16-acc16"), VerdictKind::vacuous);
  EXPECT_EQ(all_nan("f16"), VerdictKind::fail);
}

// exp2((m - m') c) with unscaled maxima in f16: neither is infinite, their difference is, and a tile is lost.
TEST(Detection, DifferencesThatOverflowAreNotAFinding) {
  const Problem problem = problem_from_text(
      "b=2 hq=2 hkv=1 lq=2 lk=3 d=2 dv=16 dtype=f16 scale=0x1.a36e2ep-14 values=normal:128 seed=11598239269811141103");
  emulator::Variant variant;
  variant.scale_on = emulator::ScaleOn::exponent;
  variant.tile = 2;
  const Trial run(problem, contract_for(policy_from_text("f16-softmax16")), variant);
  const Trial plain(problem, run.contract);
  EXPECT_NE(run.out.at(0, 1, 1, 9), plain.out.at(0, 1, 1, 9));
  EXPECT_NE(run.judge().kind, VerdictKind::fail);
  EXPECT_NE(plain.judge().kind, VerdictKind::fail);
}

TEST(Detection, NonFiniteInputsFollowTheContract) {
  const Problem problem = [] {
    Problem p = short_rows(Format::f32);
    p.keep = Keep::prefix;
    p.lse = LseOutput::none;
    return p;
  }();
  const auto verdict_of = [&](const std::function<void(Inputs&)>& change, NanRule rule, MaskedUnread unread,
                              double value) {
    Contract contract = contract_for(policy_for(Format::f32));
    contract.nan = rule;
    contract.masked_unread = unread;
    contract.empty_row = EmptyRow::zero;
    Trial run(problem, contract, [](Inputs& in) {
      for (Index i = 0; i < 4; ++i)
        for (Index j = 0; j < 6; ++j) in.keep.set(0, 0, i, j, j < 4);
    });
    const Tensor clean = run.out.clone();
    change(run.inputs);
    if (!std::isnan(value)) return run.judge().kind;  // as without the change
    for (Index c = 0; c < problem.dv; ++c) run.out.set(0, 0, 1, c, value);
    return run.judge().kind;
  };
  const auto query = [](Inputs& in) { in.q.set(0, 0, 1, 3, nan); };
  EXPECT_EQ(verdict_of(query, NanRule::propagates, MaskedUnread::no, nan), VerdictKind::pass);
  EXPECT_EQ(verdict_of(query, NanRule::propagates, MaskedUnread::no, 0), VerdictKind::fail);
  EXPECT_EQ(verdict_of(query, NanRule::unspecified, MaskedUnread::no, 0), VerdictKind::pass);
  const auto masked_key = [](Inputs& in) { in.k.set(0, 0, 5, 3, nan); };
  EXPECT_EQ(verdict_of(masked_key, NanRule::unspecified, MaskedUnread::yes, 0), VerdictKind::pass);
  EXPECT_EQ(verdict_of(masked_key, NanRule::unspecified, MaskedUnread::yes, nan), VerdictKind::fail);
  EXPECT_EQ(verdict_of(masked_key, NanRule::unspecified, MaskedUnread::no, nan), VerdictKind::pass);
  const auto masked_value = [](Inputs& in) {
    for (Index c = 0; c < 4; ++c) in.v.set(0, 0, 4, c, infinity);
  };
  EXPECT_EQ(verdict_of(masked_value, NanRule::unspecified, MaskedUnread::yes, nan), VerdictKind::fail);
  EXPECT_EQ(verdict_of(masked_value, NanRule::unspecified, MaskedUnread::no, nan), VerdictKind::pass);
  const auto attended_value = [](Inputs& in) {
    for (Index c = 0; c < 4; ++c) in.v.set(0, 0, 0, c, infinity);
  };
  EXPECT_EQ(verdict_of(attended_value, NanRule::unspecified, MaskedUnread::no, 0), VerdictKind::fail);
}

TEST(Detection, OnlyJudgedRowsAreJudged) {
  Problem problem = short_rows(Format::f32);
  problem.rows = 3;
  Trial run(problem, contract_for(policy_for(Format::f32)));
  const std::vector<Index> rows = judged_rows(problem);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(run.judge().counts.judged, 3 * (problem.dv + 1));
  for (Index flat = 0; flat < problem.b * problem.hq * problem.lq; ++flat) {
    if (std::find(rows.begin(), rows.end(), flat) != rows.end()) continue;
    for (Index c = 0; c < problem.dv; ++c)
      run.out.set(flat / problem.lq / problem.hq, flat / problem.lq % problem.hq, flat % problem.lq, c, nan);
  }
  EXPECT_EQ(run.judge().kind, VerdictKind::pass);
}

// An output stage of wider range or shorter significand than the tensor may round to what is infinite there.
TEST(Detection, StorageMayOverflowWhereTheOutputStageDoesNot) {
  const Problem problem = problem_from_text("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f16 edit=v[0,0,0,0]:65440");
  for (const auto& [policy, permitted] : {std::pair{"f16", false}, std::pair{"f16,output=bf16", true}}) {
    Trial run(problem, contract_for(policy_from_text(policy)));
    run.out.set(0, 0, 0, 0, infinity);
    EXPECT_EQ(run.judge().kind, permitted ? VerdictKind::vacuous : VerdictKind::fail) << policy;
  }
}

// Scores of millions in a bf16 accumulator are off by thousands of nats, and so is their log-sum-exp: by that, and no more.
TEST(Detection, LogSumExpsFarOffAreBoundedToo) {
  const Problem problem = problem_from_text("lq=4 lk=6 d=32 dv=2 values=normal:1024 lse=f64 seed=3");
  Trial run(problem, contract_for(policy_from_text("f32,qk=bf16")));
  EXPECT_NE(run.judge().kind, VerdictKind::fail);
  const oracle::Enclosure e = oracle::AttentionOracle(run.contract, problem, run.inputs).lse_enclosure(0, 0, 2);
  EXPECT_GT(e.hi - e.lo, 2000);
  for (const auto& [value, outside] : {std::pair{e.lo, false}, {e.hi, false}, {e.lo - 1, true}, {e.hi + 1, true}}) {
    run.lse.set(0, 0, 2, 0, value);
    EXPECT_EQ(run.judge().kind == VerdictKind::fail, outside) << value;
  }
}

TEST(Detection, ALogSumExpMayRoundToAnInfinityOfItsOwnType) {
  oracle::Enclosure lse;
  lse.lo = -1.1e300;
  lse.hi = -1e300;
  const oracle::Rounding to_f32{Format::f64, Format::f32, false}, to_f64{Format::f64, Format::f64, false};
  EXPECT_EQ(judge_element(lse, to_f32, -infinity), oracle::Outcome::undetermined);
  EXPECT_EQ(judge_element(lse, to_f32, infinity), oracle::Outcome::outside);
  EXPECT_EQ(judge_element(lse, to_f32, nan), oracle::Outcome::outside);
  EXPECT_EQ(judge_element(lse, to_f64, -infinity), oracle::Outcome::outside);
}

// 254 times 8 is lost beside 16384 in an f16 accumulator: a score of 0 becomes -2032, and the key at -1000, far less off,
// takes the whole weight.
TEST(Detection, AKeyFarBelowMayWinWhereTheFirstIsFartherOff) {
  const Problem problem = problem_from_text("lq=1 lk=2 d=256 dv=1 dtype=f16 scale=1");
  Trial run(problem, contract_for(policy_from_text("f16-acc16")), [](Inputs& in) {
    for (Index c = 0; c < 256; ++c) {
      in.q.set(0, 0, 0, c, 1);
      in.k.set(0, 0, 0, c, c == 0 ? 16384 : c == 255 ? -18416 : 8);
      in.k.set(0, 0, 1, c, c == 0 ? -1000 : 0);
    }
    in.v.set(0, 0, 0, 0, 1);
    in.v.set(0, 0, 1, 0, 0);
  });
  EXPECT_EQ(run.out.at(0, 0, 0, 0), 0);
  EXPECT_NE(run.judge().kind, VerdictKind::fail);
  run.out.set(0, 0, 0, 0, -0.5);
  EXPECT_EQ(run.judge().kind, VerdictKind::fail);
}

// One query of 1 and as many keys as scores, with a scale of 1; a bias, where there is one, of -9984.
Trial scored(const std::string& text, const char* policy, const std::vector<double>& scores,
             const std::vector<double>& values) {
  const Problem p = problem_from_text("lq=1 d=1 dv=1 scale=1 lk=" + std::to_string(scores.size()) + " " + text);
  return Trial(p, contract_for(policy_from_text(policy)), [&](Inputs& in) {
    in.q.set(0, 0, 0, 0, 1);
    for (std::size_t j = 0; j < scores.size(); ++j) {
      in.k.set(0, 0, static_cast<Index>(j), 0, scores[j]);
      in.v.set(0, 0, static_cast<Index>(j), 0, values[j]);
      if (in.bias.present()) in.bias.set(0, 0, 0, static_cast<Index>(j), -9984);
    }
  });
}

// Beside a bias of -9984 bf16 forgets 37 nats, and both keys may weigh the same. The second key's 1e-16 rounds the mean to
// a number past the first key's value, where the search for the lower end starts.
TEST(Detection, AKeyThatNobodySeesMayWeighAsMuchAsTheFirst) {
  Trial run = scored("dtype=bf16 bias=minus_1e4", "bf16-all", {24.625, -12.25}, {6.75, 6.03125});
  Arithmetic& how = run.contract.arithmetic;
  how.exp2 = how.normalise_before = how.sum_of_rounded = false;
  how.lse_merge = LseMerge::none;
  how.kv_tile_min = 64;
  for (const auto& [out, outside] : {std::pair{6.75, false}, {6.375, false}, {5.5, true}}) {
    run.out.set(0, 0, 0, 0, out);
    EXPECT_EQ(run.judge().kind == VerdictKind::fail, outside) << out;
    EXPECT_EQ(run.judge_slowly().kind == VerdictKind::fail, outside) << out;
  }
}

// Weights next to the smallest normal double are judged as any other, and a kernel may flush smaller ones.
TEST(Detection, TheSmallestWeightsAreNumbers) {
  const auto kind = [](double score, double out) {
    Trial run = scored("dtype=f64", "f64", {0, score}, {0, 1});
    run.contract.arithmetic.normalise_after = run.contract.arithmetic.normalise_lse = false;  // the tightest way
    run.out.set(0, 0, 0, 0, out);
    return run.judge().kind;
  };
  for (const double score : {-600.5, -650.0, -707.0, -708.3125, -708.75, -740.0}) {
    const double weight = std::exp(score);
    EXPECT_NE(kind(score, weight), VerdictKind::fail) << score;
    EXPECT_NE(kind(score, weight < 0x1p-1022 ? 0 : weight * (1 - 1e-13)), VerdictKind::fail) << score;
    EXPECT_EQ(kind(score, weight * (1 + 1e-11) + 0x1p-1017), VerdictKind::fail) << score;
  }
}

// A score whose e^x errs by more than a little, 650 nats below the maximum: its own interval, not a point.
TEST(Detection, SmallWeightsMayBeFarOff) {
  Trial run = scored("dtype=f64", "f64,qk=f32,score=f32,scale=f32", {0x1p20, 0x1p20 - 650}, {0, 1});
  for (const double factor : {0.98, 1.0, 1.02}) {
    run.out.set(0, 0, 0, 0, factor * std::exp(-650.0));
    EXPECT_NE(run.judge().kind, VerdictKind::fail) << factor;
  }
  run.out.set(0, 0, 0, 0, 3 * std::exp(-650.0));
  EXPECT_EQ(run.judge().kind, VerdictKind::fail);
}

// Added to a NaN or an infinity, a bias of -inf makes NaN; a key that the mask closes is not looked at.
TEST(Detection, ABiasOfMinusInfinityIsAddedToAScoreThatIsRead) {
  for (const bool by_bias : {true, false}) {
    const Problem p = problem_from_text(std::string("lq=1 lk=2 d=1 dv=1 scale=1 dtype=f32 seed=1 ") +
                                        (by_bias ? "bias=zero" : "keep=open"));
    Contract contract = contract_for(policy_for(Format::f32));
    contract.masked_unread = MaskedUnread::yes;
    Trial run(p, contract, [&](Inputs& in) {
      by_bias ? in.bias.set(0, 0, 0, 0, -infinity) : in.keep.set(0, 0, 0, 0, 0);
      in.k.set(0, 0, 0, 0, infinity);
      in.v.set(0, 0, 0, 0, infinity);
    });
    run.out.set(0, 0, 0, 0, nan);
    EXPECT_EQ(run.judge().kind == VerdictKind::fail, !by_bias);
  }
}

// Brought to units of 1/log2 e in the score's format, a bias of 528 may be off by 528 u and by the factor's rounding.
TEST(Detection, ABiasMayBeRoundedOnItsWayToExp2) {
  const auto width = [](bool fold) {
    Trial run = scored("dtype=f16 bias=zero lse=f32", "f16-scores16", {0}, {1});
    run.inputs.bias.set(0, 0, 0, 0, 528);
    Arithmetic& how = run.contract.arithmetic;
    how.fold_q = fold;
    how.fold_k = how.fold_sqrt = false;
    const oracle::Enclosure lse = oracle::AttentionOracle(run.contract, run.problem, run.inputs).lse_enclosure(0, 0, 0);
    return lse.hi - lse.lo;
  };
  EXPECT_GE(width(true), width(false) + 2 * 2 * 528 * unit_roundoff(Format::f16));
  EXPECT_LE(width(true), width(false) + 2.1 * 2 * 528 * unit_roundoff(Format::f16));
}

// A softcap of 100000 is infinite in f16, and infinity times tanh(0) is NaN.
TEST(Overflow, ASoftcapThatItsFormatCannotHoldMakesAnythingOfAScore) {
  const auto nan_is = [](const char* policy, const char* softcap) {
    Trial run = scored(std::string("dtype=f16 softcap=") + softcap, policy, {0, 1}, {1, 2});
    EXPECT_NE(run.judge().kind, VerdictKind::fail);
    run.out.set(0, 0, 0, 0, nan);
    return run.judge().kind;
  };
  EXPECT_NE(nan_is("f16-all", "100000"), VerdictKind::fail);
  EXPECT_EQ(nan_is("f16-all", "100"), VerdictKind::fail);
  EXPECT_EQ(nan_is("f16", "100000"), VerdictKind::fail);
}

// A score of 50000 fits f16; times log2 e, folded into q with the scale, it does not.
TEST(Overflow, ComesSoonerWhereLog2EIsFoldedIn) {
  const auto nan_is = [](bool exp2, bool fold_q, double score) {
    Trial run = scored("dtype=f16", "f16-scores16", {score, score}, {1, 2});
    Arithmetic& how = run.contract.arithmetic;
    how.exp2 = exp2;
    how.fold_q = fold_q;
    how.fold_k = how.fold_sqrt = false;
    EXPECT_NE(run.judge().kind, VerdictKind::fail);
    run.out.set(0, 0, 0, 0, nan);
    return run.judge().kind;
  };
  EXPECT_NE(nan_is(true, true, 50000), VerdictKind::fail);
  EXPECT_EQ(nan_is(true, true, 40000), VerdictKind::fail);
  EXPECT_EQ(nan_is(true, false, 50000), VerdictKind::fail);
  EXPECT_EQ(nan_is(false, true, 50000), VerdictKind::fail);
}

// More keys than fit the gathered tile, and a fault in one row of many.
TEST(Detection, LongRowsAreJudgedInTiles) {
  Problem problem;
  problem.lk = 70'001;
  problem.d = 16;
  problem.dv = 8;
  problem.lq = 2;
  problem.lse = LseOutput::f64;
  Trial run(problem, contract_for(policy_for(Format::f32)));
  const Verdict verdict = run.judge();
  EXPECT_EQ(verdict.kind, VerdictKind::pass);
  EXPECT_EQ(verdict.counts.judged, 2 * 9);
  run.out.set(0, 0, 1, 7, run.out.at(0, 0, 1, 7) + 0.1);
  EXPECT_EQ(run.judge().kind, VerdictKind::fail);
}

// Infinity times a score of 0 is NaN; a scale that fits leaves it 0.
TEST(Overflow, AScaleThatItsFormatCannotHoldMakesAnythingOfAScore) {
  const auto nan_is = [](std::string_view policy, double scale) {
    Problem p = short_rows(Format::f16);
    p.q_form = Form::zero;
    p.scale = scale;
    Trial run(p, contract_for(policy_from_text(policy)));
    EXPECT_NE(run.judge().kind, VerdictKind::fail);
    run.out.set(1, 1, 2, 3, nan);
    return run.judge().kind;
  };
  EXPECT_NE(nan_is("f16-scores16", 0x1p16), VerdictKind::fail);
  EXPECT_NE(nan_is("f16-scores16", -0x1p40), VerdictKind::fail);
  EXPECT_EQ(nan_is("f16-scores16", 0x1p13), VerdictKind::fail);
  EXPECT_EQ(nan_is("f16", 0x1p16), VerdictKind::fail);
}

}  // namespace
}  // namespace attest
