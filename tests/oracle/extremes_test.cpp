// The limits of permission at the edges of the formats: overflows, weights next to nothing, scores and biases that are
// far off.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "oracle/attention.hpp"
#include "oracle/outcome.hpp"
#include "tests/oracle/trial.hpp"

namespace attest {
namespace {

using testing::infinity;
using testing::nan;
using testing::short_rows;
using testing::Trial;

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

TEST(Extremes, OverflowThatThePolicyAllowsIsNotAFinding) {
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
TEST(Extremes, DifferencesThatOverflowAreNotAFinding) {
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

// Weights that are divided by their own sum first make no sum that exceeds the values by more than rounding.
TEST(Extremes, AMeanDoesNotOverflowWhereItsWeightsAreDividedFirst) {
  for (const double value : {1.5e38, 3e38, static_cast<double>(std::numeric_limits<float>::max())}) {
    for (const bool last : {false, true}) {
      Trial run = scored("dtype=f32", "f32", {0, 0, 0, 0}, {value, value, value, value});
      run.contract.arithmetic.normalise_after = last;
      run.contract.arithmetic.lse_merge = LseMerge::none;
      run.out.set(0, 0, 0, 0, value);
      EXPECT_NE(run.judge().kind, VerdictKind::fail);
      run.out.set(0, 0, 0, 0, infinity);
      const bool may = last || value > 3.1e38;
      EXPECT_EQ(run.judge().kind, may ? VerdictKind::vacuous : VerdictKind::fail) << value << last;
    }
  }
}

// An output stage of wider range or shorter significand than the tensor may round to what is infinite there.
TEST(Extremes, StorageMayOverflowWhereTheOutputStageDoesNot) {
  const Problem problem = problem_from_text("b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f16 edit=v[0,0,0,0]:65440");
  for (const auto& [policy, permitted] : {std::pair{"f16", false}, std::pair{"f16,output=bf16", true}}) {
    Trial run(problem, contract_for(policy_from_text(policy)));
    run.out.set(0, 0, 0, 0, infinity);
    EXPECT_EQ(run.judge().kind, permitted ? VerdictKind::vacuous : VerdictKind::fail) << policy;
  }
}

// Scores of millions in a bf16 accumulator are off by thousands of nats, and so is their log-sum-exp: by that, and no
// more.
TEST(Extremes, LogSumExpsFarOffAreBoundedToo) {
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

TEST(Extremes, ALogSumExpMayRoundToAnInfinityOfItsOwnType) {
  oracle::Enclosure lse;
  lse.lo = -1.1e300;
  lse.hi = -1e300;
  const oracle::Rounding to_f32{Format::f64, Format::f32, false}, to_f64{Format::f64, Format::f64, false};
  EXPECT_EQ(judge_element(lse, to_f32, -infinity), oracle::Outcome::undetermined);
  EXPECT_EQ(judge_element(lse, to_f32, infinity), oracle::Outcome::outside);
  EXPECT_EQ(judge_element(lse, to_f32, nan), oracle::Outcome::outside);
  EXPECT_EQ(judge_element(lse, to_f64, -infinity), oracle::Outcome::outside);
}

// 254 times 8 is lost beside 16384 in an f16 accumulator: a score of 0 becomes -2032, and the key at -1000, far less
//     off,
// takes the whole weight.
TEST(Extremes, AKeyFarBelowMayWinWhereTheFirstIsFartherOff) {
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

// Beside a bias of -9984 bf16 forgets 37 nats, and both keys may weigh the same. The second key's 1e-16 rounds the mean
// to a number past the first key's value, where the search for the lower end starts.
TEST(Extremes, AKeyThatNobodySeesMayWeighAsMuchAsTheFirst) {
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
TEST(Extremes, TheSmallestWeightsAreNumbers) {
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
TEST(Extremes, SmallWeightsMayBeFarOff) {
  Trial run = scored("dtype=f64", "f64,qk=f32,score=f32,scale=f32", {0x1p20, 0x1p20 - 650}, {0, 1});
  for (const double factor : {0.98, 1.0, 1.02}) {
    run.out.set(0, 0, 0, 0, factor * std::exp(-650.0));
    EXPECT_NE(run.judge().kind, VerdictKind::fail) << factor;
  }
  run.out.set(0, 0, 0, 0, 6 * std::exp(-650.0));
  EXPECT_EQ(run.judge().kind, VerdictKind::fail);
}

// Added to a NaN or an infinity, a bias of -inf makes NaN; a key that the mask closes is not looked at.
TEST(Extremes, ABiasOfMinusInfinityIsAddedToAScoreThatIsRead) {
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

// 16 times 8,192 is past f16. A mask that replaces the score hides it; one of -inf that is added makes NaN of it.
TEST(Extremes, AnAddedMaskMakesNanOfAScoreThatOverflowed) {
  for (const char* mask : {"keep=open", "causal=1", "lengths=full"})
    for (const bool added : {false, true})
      for (const double k : {8192.0, 1024.0}) {
        Contract contract = contract_for(policy_from_text("f16-all"));
        contract.mask_added = added;
        const Problem p = problem_from_text(std::string("lq=1 lk=2 d=1 dv=1 scale=1 dtype=f16 seed=1 ") + mask);
        Trial run(p, contract, [&](Inputs& in) {
          if (in.keep.present()) in.keep.set(0, 0, 0, 1, 0);
          if (in.kv_lengths.present()) in.kv_lengths.set(0, 0, 0, 0, 1);
          in.q.set(0, 0, 0, 0, 16);
          in.k.set(0, 0, 0, 0, 0);
          in.k.set(0, 0, 1, 0, k);
          in.v.set(0, 0, 0, 0, 1);
        });
        run.out.set(0, 0, 0, 0, nan);
        EXPECT_EQ(run.judge().kind == VerdictKind::fail, !added || k < 8192) << mask << " " << k;
        run.out.set(0, 0, 0, 0, 1);
        EXPECT_NE(run.judge().kind, VerdictKind::fail) << mask << " " << k;
        run.out.set(0, 0, 0, 0, 2);
        EXPECT_EQ(run.judge().kind, VerdictKind::fail) << mask << " " << k;
      }
}

// With errors of 1,023 ulp e^-0.69 may come out as 0.002 in f16, where every weight but the largest may be so.
TEST(Extremes, AnExpMayLoseAlmostAllOfItsResult) {
  const auto kind = [](double exp_ulp, const char* other) {
    Contract contract = contract_for(policy_from_text("f16-softmax16"));
    contract.arithmetic = contract_from_text(other, contract.policy).arithmetic;
    contract.arithmetic.exp_ulp = exp_ulp;
    const Problem p = problem_from_text("lq=1 lk=600 d=1 dv=1 scale=0x1.6p-1 dtype=f16 lse=f32");
    Trial run(p, contract, [](Inputs& in) {
      in.q.set(0, 0, 0, 0, 1);
      for (Index j = 0; j < 600; ++j) {
        in.k.set(0, 0, j, 0, j == 0 ? 1 : 0);
        in.v.set(0, 0, j, 0, j == 0 ? 0 : 1);
      }
    });
    const double weight = round_to(Format::f16, std::exp(-0x1.6p-1)) - 1023 * 0x1p-11;  // weight of each of 599 keys
    EXPECT_GT(weight, 0);
    run.out.set(0, 0, 0, 0, round_to(Format::f16, 599 * weight / (1 + 599 * weight)));
    run.lse.set(0, 0, 0, 0, round_to(Format::f16, 0x1.6p-1 + std::log(1 + 599 * weight)));
    const VerdictKind quick = run.judge().kind;
    EXPECT_EQ(quick, run.judge_slowly().kind);
    return quick;
  };
  for (const char* other : {"{}", R"({"exp2":false,"lse_merge":"none","fold":"none","kv_tile_min":1024})"}) {
    EXPECT_NE(kind(1023.5, other), VerdictKind::fail) << other;
    EXPECT_EQ(kind(200, R"({"exp2":false,"lse_merge":"none","fold":"none","kv_tile_min":1024})"), VerdictKind::fail);
  }
}

// Scores of 0, 5.5 and 87.6: a maximum that lags by 8 ln 2 gives the second key a weight of e^5.5, and e^-87.6 may be
// flushed.
TEST(Extremes, AFactorThatIsFlushedTakesALaggingWeightAlong) {
  const auto kind = [](double lazy, double got) {
    Trial run = scored("dtype=f32", "f32", {0, 5.5, 0x1.5e6666p+6}, {0, 1e30, 0});
    run.contract.arithmetic.lazy = lazy;
    run.out.set(0, 0, 0, 0, got);
    EXPECT_EQ(run.judge().kind, run.judge_slowly().kind);
    return run.judge().kind;
  };
  const double y = round_to(Format::f32, 1e30 * std::exp(5.5 - 0x1.5e6666p+6));
  for (const double got : {y, 0.0}) EXPECT_NE(kind(8 * 0.6931471805599453, got), VerdictKind::fail) << got;
  EXPECT_NE(kind(0, y), VerdictKind::fail);
  EXPECT_EQ(kind(0, 0), VerdictKind::fail);
  EXPECT_EQ(kind(8 * 0.6931471805599453, round_to(Format::f32, 100 * y)), VerdictKind::fail);
}

// Without exp2 a score is a rounded sum of two known numbers, also where one of them is the lowest finite one.
TEST(Extremes, AScoreThatIsKnownIsJudgedAtTheEndOfTheRange) {
  constexpr const char* policies[] = {"f32", "f16", "bf16", "f16-scores16", "f16-softmax16", "f16-all", "bf16-all"};
  constexpr const char* contracts[] = {R"({"exp2":false,"fold":"none","empty_row":"zero","lse_merge":"none"})",
                                       R"({"exp2":false,"empty_row":"zero"})", R"({"empty_row":"zero"})"};
  for (const char* policy : policies)
    for (const char* text : contracts)
      for (const double raw : {0.0, 0.5}) {
        const Contract contract = contract_from_text(text, policy_from_text(policy));
        const Format dtype = contract.policy[Stage::storage];
        const std::string shape = "lq=1 lk=4 d=2 dv=1 scale=1 bias=zero dtype=" + std::string(name(dtype));
        Trial run(problem_from_text(shape), contract, [&](Inputs& in) {
          for (Index j = 0; j < 4; ++j) {
            in.q.set(0, 0, 0, j % 2, raw);
            for (Index c = 0; c < 2; ++c) in.k.set(0, 0, j, c, 1);
            in.v.set(0, 0, j, 0, static_cast<double>(j + 1));
            in.bias.set(0, 0, 0, j, -largest_finite(dtype));
          }
        });
        const bool known =
            !contract.arithmetic.exp2 || contract.policy == policy_from_text("f16");  // f32 holds 65504 log2 e
        const auto kind = [&](double got) {
          run.out.set(0, 0, 0, 0, got);
          EXPECT_EQ(run.judge().kind, run.judge_slowly().kind);
          return run.judge().kind;
        };
        SCOPED_TRACE(std::string(policy) + " " + text + (raw > 0 ? " s = 1" : " s = 0"));
        EXPECT_NE(kind(2.5), VerdictKind::fail);  // the mean, as the emulated kernel gives it
        EXPECT_EQ(kind(0) == VerdictKind::fail, known);
        EXPECT_EQ(kind(nan) == VerdictKind::fail, known);
      }
}

// A bias that swallows the score leaves less than u_score |z| to chance: 1e30 in f32 has an ulp of 7e22.
TEST(Extremes, ALargeBiasSwallowsTheScore) {
  const Problem p = problem_from_text("lq=1 lk=2 d=1 dv=1 scale=1 bias=zero dtype=f32");
  const Contract contract =
      contract_from_text(R"({"exp2":false,"fold":"none","lse_merge":"none"})", policy_from_text("f32"));
  const auto kind = [&](double bias, double score, double got) {
    Trial run(p, contract, [&](Inputs& in) {
      in.q.set(0, 0, 0, 0, score);
      for (Index j = 0; j < 2; ++j) {
        in.k.set(0, 0, j, 0, j == 0 ? 1 : -1);
        in.v.set(0, 0, j, 0, j == 0 ? 1 : -1);
        in.bias.set(0, 0, 0, j, bias);
      }
    });
    EXPECT_NE(run.judge().kind, VerdictKind::fail) << bias << " " << score;
    run.out.set(0, 0, 0, 0, got);
    EXPECT_EQ(run.judge().kind, run.judge_slowly().kind);
    return run.judge().kind;
  };
  EXPECT_EQ(kind(-0x1p100, 0, 0.25), VerdictKind::fail);
  EXPECT_EQ(kind(-0x1p100, 0.125, 0), VerdictKind::pass);       // both scores rounded
  EXPECT_EQ(kind(-0x1p100, 0.125, 0.1243), VerdictKind::pass);  // or kept in more bits
  EXPECT_EQ(kind(-0x1p100, 0.125, 0.9), VerdictKind::fail);
}

// Brought to units of 1/log2 e in the score's format, a bias of 528 may be off by 528 u and by the factor's rounding.
TEST(Extremes, ABiasMayBeRoundedOnItsWayToExp2) {
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
TEST(Extremes, ASoftcapThatItsFormatCannotHoldMakesAnythingOfAScore) {
  const auto nan_is = [](const char* policy, const char* softcap) {
    Trial run = scored(std::string("dtype=f16 softcap=") + softcap, policy, {0, 1}, {1, 2});
    EXPECT_NE(run.judge().kind, VerdictKind::fail);
    run.out.set(0, 0, 0, 0, nan);
    return run.judge().kind;
  };
  EXPECT_NE(nan_is("f16-all", "100000"), VerdictKind::fail);
  EXPECT_EQ(nan_is("f16-all", "100"), VerdictKind::fail);
  EXPECT_EQ(nan_is("f16", "100000"), VerdictKind::fail);
  EXPECT_NE(nan_is("f16-all", "1e-9"), VerdictKind::fail);  // 0, and 0/0 is NaN too
  EXPECT_NE(nan_is("f16-all", "1e-6"), VerdictKind::fail);  // its reciprocal is infinite
  EXPECT_EQ(nan_is("f16-all", "2e-5"), VerdictKind::fail);
}

// A score of 50000 fits f16; times log2 e, folded into q with the scale, it does not.
TEST(Extremes, OverflowComesSoonerWhereLog2EIsFoldedIn) {
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

// Infinity times a score of 0 is NaN; a scale that fits leaves it 0.
TEST(Extremes, AScaleThatItsFormatCannotHoldMakesAnythingOfAScore) {
  const auto nan_is = [](std::string_view policy, double scale, bool fold = true) {
    Problem p = short_rows(Format::f16);
    p.q_form = Form::zero;
    p.scale = scale;
    Contract contract = contract_for(policy_from_text(policy));
    contract.arithmetic.fold_q = contract.arithmetic.fold_k = contract.arithmetic.fold_sqrt = fold;
    Trial run(p, contract);
    EXPECT_NE(run.judge().kind, VerdictKind::fail);
    run.out.set(1, 1, 2, 3, nan);
    return run.judge().kind;
  };
  EXPECT_NE(nan_is("f16-scores16", 0x1p16), VerdictKind::fail);
  EXPECT_NE(nan_is("f16-scores16", -0x1p40), VerdictKind::fail);
  EXPECT_EQ(nan_is("f16-scores16", 0x1p13), VerdictKind::fail);
  EXPECT_EQ(nan_is("f16", 0x1p16, false), VerdictKind::fail);
  EXPECT_NE(nan_is("f16", 0x1p16), VerdictKind::fail);  // k times the scale, as it enters the product
}

}  // namespace
}  // namespace attest
