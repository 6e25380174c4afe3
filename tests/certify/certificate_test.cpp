// Certificates of single claims: what stands, what falls, and what must never be certified.
#include "certify/certificate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/problem.hpp"

namespace attest::certify {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Certificate certificate_of(const char* problem, const char* policy, double value, EmptyRow empty_row = EmptyRow::zero,
                           Claim::Tensor tensor = Claim::Tensor::out, bool hull = false, double exp_ulp = 1) {
  Contract contract = contract_for(policy_from_text(policy));
  contract.empty_row = empty_row;
  contract.arithmetic.exp_ulp = exp_ulp;
  return certify(contract, problem_from_text(problem), {tensor, {0, 0, 0, 0}, value, hull});
}

Answer answer(const char* problem, const char* policy, double value, EmptyRow empty_row = EmptyRow::zero) {
  return certificate_of(problem, policy, value, empty_row).answer;
}

// Two equal scores over the values 1 and 2.
constexpr const char* mean = "lq=1 lk=2 d=1 dv=1 dtype=f32 values=constant:1 q_form=zero edit=v[0,0,1,0]:0x1p+1";

// With a poor exp in f16 the sum of a hundred weights may be infinite.
constexpr const char* hundred = "lq=1 lk=100 d=1 dv=1 dtype=f16 values=constant:1 q_form=zero";

TEST(Certificate, StandsAndFallsAboutTheEnds) {
  const Certificate made = certificate_of(mean, "f32", 1.5);
  EXPECT_EQ(made.answer, Answer::falls);
  EXPECT_EQ(made.exact, "1.5000000000000000000");
  EXPECT_EQ(made.bits, first_bits);
  EXPECT_LT(made.rounded_lo, 1.5);
  EXPECT_GT(made.rounded_hi, 1.5);
  EXPECT_EQ(made.keys.size(), 2u);
  EXPECT_FALSE(made.ways.empty());
  const auto next = [](double x, double to) {
    return static_cast<double>(std::nextafter(static_cast<float>(x), static_cast<float>(to)));
  };
  EXPECT_EQ(answer(mean, "f32", made.rounded_lo), Answer::falls);
  EXPECT_EQ(answer(mean, "f32", made.rounded_hi), Answer::falls);
  EXPECT_EQ(answer(mean, "f32", next(made.rounded_lo, 0)), Answer::stands);
  EXPECT_EQ(answer(mean, "f32", next(made.rounded_hi, 2)), Answer::stands);
  EXPECT_EQ(answer(mean, "f32", -1.5), Answer::stands);
}

TEST(Certificate, NotFiniteStandsOnlyWhereNothingCanOverflow) {
  EXPECT_EQ(answer(mean, "f32", nan), Answer::stands);
  EXPECT_EQ(answer(mean, "f32", infinity), Answer::stands);
  // 256 x 256 overflows in f16 before it is scaled to 1.
  const char* products = "lq=1 lk=2 d=1 dv=1 dtype=f16 scale=0x1p-16 values=constant:0x1p+8";
  EXPECT_EQ(answer(products, "f16", nan), Answer::stands);
  EXPECT_EQ(answer(products, "f16-acc16", nan), Answer::falls);
  // A softcap, or a score that it does not bring to its end, past the range of its own stage.
  const char* capped = "lq=1 lk=2 d=1 dv=1 dtype=f16 scale=1 softcap=100000 values=constant:1";
  EXPECT_EQ(answer(capped, "f16", nan), Answer::stands);
  EXPECT_EQ(answer(capped, "f16-softmax16", nan), Answer::falls);
  const char* large = "lq=1 lk=2 d=1 dv=1 dtype=f16 scale=1 softcap=30000 values=constant:512 v_form=one";
  EXPECT_EQ(answer(large, "f16", nan), Answer::stands);
  EXPECT_EQ(answer(large, "f16-softmax16", nan), Answer::falls);
  // A value that out's own type may round to infinity.
  EXPECT_EQ(answer("lq=1 lk=1 d=1 dv=1 dtype=f16 values=constant:1 edit=v[0,0,0,0]:65504", "f16-acc16", infinity),
            Answer::falls);
}

TEST(Certificate, NothingIsCertifiedOfAnUndeterminedElement) {
  const Certificate made =
      certificate_of(hundred, "f16-softmax16", 0.25, EmptyRow::zero, Claim::Tensor::out, false, 1000);
  EXPECT_EQ(made.answer, Answer::falls);
  EXPECT_NE(made.why.find("undetermined"), std::string::npos) << made.why;
  EXPECT_TRUE(made.lo.empty());
  EXPECT_EQ(answer(hundred, "f16-softmax16", 0.25), Answer::stands);
  // Nobody knows what an infinity in q does.
  const char* infinite = "lq=1 lk=2 d=1 dv=1 dtype=f32 values=constant:1 edit=q[0,0,0,0]:inf";
  for (const double value : {0.0, 0x1p100, nan, infinity}) EXPECT_EQ(answer(infinite, "f32", value), Answer::falls);
}

TEST(Certificate, AScoreNextToTheLargestNumberIsOne) {
  Contract contract = contract_for(policy_from_text("f64"));
  contract.empty_row = EmptyRow::nan;
  contract.arithmetic.exp2 = false;
  contract.arithmetic.lse_merge = LseMerge::none;
  const auto answer_of = [&](const char* problem, double value) {
    return certify(contract, problem_from_text(problem), {Claim::Tensor::out, {0, 0, 0, 0}, value, false}).answer;
  };
  // Rounded, it is the lowest double itself.
  const char* lowest =
      "lq=1 lk=1 d=1 dv=1 dtype=f64 scale=-1 values=constant:1 bias=zero edit=bias[0,0,0,0]:-0x1.fffffffffffffp+1023";
  EXPECT_EQ(answer_of(lowest, 1), Answer::falls);
  EXPECT_EQ(answer_of(lowest, 2), Answer::stands);
  // Scores off by that much leave the largest weight open, and no mean leaves the hull all the same.
  contract.policy = policy_from_text("bf16");
  contract.arithmetic.lazy = 0;
  contract.arithmetic.normalise_before = contract.arithmetic.sum_of_rounded = false;
  const char* pair =
      "lq=1 lk=2 d=1 dv=1 dtype=bf16 values=constant:1 bias=zero bias_type=f64 "
      "edit=bias[0,0,0,0]:-0x1p+1000;bias[0,0,0,1]:-0x1p+1000";
  EXPECT_EQ(answer_of(pair, 1), Answer::falls);
  EXPECT_EQ(answer_of(pair, 2), Answer::stands);
}

// Every score is the lowest finite number, to the last bit: the row is the mean of its values, and not empty.
TEST(Certificate, ARowClosedByTheLowestNumberIsNotEmpty) {
  for (const char* dtype : {"f16", "bf16", "f32", "f64"}) {
    Contract contract = contract_for(policy_from_text(dtype));
    contract.empty_row = EmptyRow::zero;
    contract.arithmetic.exp2 = contract.arithmetic.fold_q = contract.arithmetic.fold_k = contract.arithmetic.fold_sqrt =
        false;
    contract.arithmetic.lse_merge = LseMerge::none;
    std::string text = std::string("lq=1 lk=2 d=1 dv=1 scale=1 values=constant:1 bias=zero dtype=") + dtype + " edit=";
    for (const char* key : {"0", "1"})
      text += std::string("bias[0,0,0,") + key + "]:" + hex_float(-largest_finite(*format_from_name(dtype))) + ";";
    text.pop_back();
    const auto answer_of = [&](double value) {
      return certify(contract, problem_from_text(text), {Claim::Tensor::out, {0, 0, 0, 0}, value, false}).answer;
    };
    EXPECT_EQ(answer_of(1), Answer::falls) << dtype;
    EXPECT_EQ(answer_of(0), Answer::stands) << dtype;
    // Next to the largest double nothing says when a sum becomes infinite.
    EXPECT_EQ(answer_of(nan), dtype == std::string("f64") ? Answer::falls : Answer::stands) << dtype;
  }
}

TEST(Certificate, EmptyRowsFollowTheContract) {
  const char* closed = "lq=1 lk=2 d=1 dv=1 dtype=f32 keep=closed values=constant:1";
  EXPECT_EQ(answer(closed, "f32", 0), Answer::falls);
  EXPECT_EQ(answer(closed, "f32", 1), Answer::stands);
  EXPECT_EQ(answer(closed, "f32", nan), Answer::stands);
  EXPECT_EQ(answer(closed, "f32", nan, EmptyRow::nan), Answer::falls);
  EXPECT_EQ(answer(closed, "f32", 0, EmptyRow::nan), Answer::stands);
  EXPECT_EQ(answer(closed, "f32", 1, EmptyRow::mean_v), Answer::falls);
  EXPECT_EQ(answer(closed, "f32", 0, EmptyRow::mean_v), Answer::stands);
  // The mean of the values below the length, 1 and 2, or of all three.
  const char* shorter =
      "lq=1 lk=3 d=1 dv=1 dtype=f32 keep=closed lengths=full values=constant:1 edit=v[0,0,1,0]:0x1p+1;"
      "v[0,0,2,0]:0x1.2p+2;kv_lengths[0,0,0,0]:0x1p+1";
  for (const auto& [rule, mean] : {std::pair{EmptyRow::mean_v, 1.5}, std::pair{EmptyRow::mean_all, 2.5}}) {
    EXPECT_EQ(answer(shorter, "f32", mean, rule), Answer::falls);
    EXPECT_EQ(answer(shorter, "f32", 4 - mean, rule), Answer::stands);
  }
  for (const double value : {0.0, 7.0, nan})
    EXPECT_EQ(answer(closed, "f32", value, EmptyRow::unspecified), Answer::falls);
  const auto lse = [&](double value) {
    return certificate_of(closed, "f32", value, EmptyRow::zero, Claim::Tensor::lse).answer;
  };
  EXPECT_EQ(lse(-infinity), Answer::falls);
  EXPECT_EQ(lse(0), Answer::stands);
  EXPECT_EQ(lse(nan), Answer::stands);
}

TEST(Certificate, LogSumExp) {
  const char* two = "lq=1 lk=2 d=1 dv=1 dtype=f32 lse=f32 values=constant:1 q_form=zero";
  const auto lse = [&](double value) {
    return certificate_of(two, "f32", value, EmptyRow::zero, Claim::Tensor::lse).answer;
  };
  EXPECT_EQ(lse(0x1.62e43p-1), Answer::falls);  // ln 2
  EXPECT_EQ(lse(1), Answer::stands);            // log2 2
  EXPECT_EQ(lse(-infinity), Answer::stands);
}

// The sum of weights may itself be infinite, and the quotient 0; a value outside the hull of the values and 0 is wrong
// nevertheless.
TEST(Certificate, TheHullJudgesWhatTheIntervalLeavesOpen) {
  const auto hull = [&](double value) {
    return certificate_of(hundred, "f16-softmax16", value, EmptyRow::zero, Claim::Tensor::out, true, 1000).answer;
  };
  EXPECT_EQ(hull(0), Answer::falls);
  EXPECT_EQ(hull(1), Answer::falls);
  EXPECT_EQ(hull(-60000), Answer::stands);
  EXPECT_EQ(hull(nan), Answer::falls);
}

TEST(Certificate, RefusesAClaimThatCannotBe) {
  const Contract contract = contract_for(policy_from_text("f32"));
  const Problem problem = problem_from_text(mean);
  const auto refused = [&](const Claim& claim, const char* says) {
    try {
      certify(contract, problem, claim);
      ADD_FAILURE() << "accepted, and not refused for: " << says;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  refused({Claim::Tensor::out, {0, 0, 1, 0}, 1}, "out[0,0,1,0]");
  refused({Claim::Tensor::out, {0, 0, -1, 0}, 1}, "out[0,0,-1,0]");
  refused({Claim::Tensor::lse, {0, 0, 0, 1}, 1}, "lse[0,0,0,1]");
  refused({Claim::Tensor::out, {0, 0, 0, 0}, 0.1}, "no number of f32");
  refused({Claim::Tensor::lse, {0, 0, 0, 0}, 1, true}, "no weighted mean");
}

}  // namespace
}  // namespace attest::certify
