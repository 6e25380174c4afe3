// Concatenated heads, and q, k and v, as comparing.hpp has it of out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/mha/inputs.hpp"
#include "core/rng.hpp"
#include "tests/certify/mha/comparing.hpp"
#include "tests/certify/values.hpp"
#include "tests/setting.hpp"

namespace attest::certifying {
namespace {

using certify::Answer;

// Compares heads for all projections that the contract permits with the oracle's where nothing was given, way by way.
// `off`: the certificate is given another chain, so that they differ.
void compare_heads(std::uint64_t key, bool off, Totals& totals, Complaints& complaints) {
  const Asked of = asked(key);
  const mha::Problem& p = of.problem;
  if (p.dtype == Format::f64) return;  // an ulp of float64 is the oracle's own error
  const mha::Contract contract = of.named.contract();
  mha::Contract told = contract;
  if (off) told.attention.arithmetic.exp_ulp += 50;
  const mha::Inputs inputs = mha::materialise(p);
  const Tensor out = mha::make_out(p);
  const mha::Call call = inputs.call(out);
  oracle::MhaOracle oracle(contract, call);
  const auto pick = [&](std::uint64_t salt, Index count) {
    return static_cast<Index>(below(mix(key + salt), static_cast<std::uint64_t>(count)));
  };
  const Index b = pick(1, p.b), i = pick(2, p.l), c = pick(3, p.q_width());
  ++totals.problems;
  const certify::Precision precision(certify::first_bits);
  for (std::size_t n = 0; n < oracle.ways(); ++n) {
    const oracle::WayName name = oracle::ways_of(contract)[n];
    const certify::mha::Going going{name.projected, name.heads_rounded};
    certify::mha::Block none(told, inputs, going, 0), wide(told, inputs, going, many);
    const auto stages = oracle.stages(n);
    const oracle::Enclosure enclosure = stages->enclosure(oracle::BlockStage::heads, {b, i, c, 0});
    const Format left = stages->rounding(oracle::BlockStage::heads, DType::f32).stage;
    const certify::Enclosure proof = none.head(b, i, c), around = wide.head(b, i, c);
    EXPECT_EQ(none.heads_left(), left);
    compare({enclosure, proof, around, left, left, contract.attention.arithmetic.flush_to_zero,
             fmt::format("{} under {} {} way {} heads[{},{},{}]", mha::to_text(p), of.named.policy, of.named.numbers, n,
                         b, i, c)},
            key, totals, complaints);
  }
}

TEST(MhaCertificate, HeadsAgreeWithTheOracle) {
  const std::uint64_t problems = setting("ATTEST_CERTIFY_PROBLEMS", 600), seed = setting("ATTEST_CERTIFY_SEED", 1);
  Totals totals;
  Complaints complaints;
  for (std::uint64_t n = 0; n < problems && complaints.size() < 20; ++n)
    compare_heads(mix(seed * 0x9e3779b97f4a7c15u + n + 0x68656164), false, totals, complaints);
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
  fmt::print("heads: {} problems, {} elements ({} undetermined), {} values: {} inside, {} outside, {} permitted\n",
             totals.problems, totals.elements, totals.undetermined, totals.values, totals.inside, totals.outside,
             totals.permitted);
  EXPECT_GE(totals.inside, totals.problems);
  EXPECT_GE(totals.outside, totals.problems / 2);

  Complaints others;
  for (std::uint64_t n = 0; n < 100; ++n) compare_heads(mix(n + 0x6f746865), true, totals, others);
  EXPECT_GT(others.size(), 20u);
}

// The permitted values of one element of q, k or v, of every way, and the answers of certify() to claims about it.
// `planted`: the oracle's upper end is given as a number of the stage's format higher than it is.
struct Projections {
  Totals totals;
  Complaints complaints;
  int points = 0, apart = 0;
  bool planted = false;
};

using ClaimOf = certify::mha::Claim::Tensor;

void compare_projection(const Asked& of, std::size_t which, const std::array<Index, 4>& at, std::uint64_t key,
                        Projections& to) {
  const mha::Problem& p = of.problem;
  const mha::Contract contract = of.named.contract();
  const mha::Inputs inputs = mha::materialise(p);
  const Tensor out = mha::make_out(p);
  const mha::Call call = inputs.call(out);
  oracle::MhaOracle oracle(contract, call);
  const oracle::BlockStage stage = oracle::block_stages[which];
  const auto projection = static_cast<certify::mha::Block::Projection>(which);
  const ClaimOf tensor = std::array{ClaimOf::q, ClaimOf::k, ClaimOf::v}[which];
  const bool flush = contract.attention.arithmetic.flush_to_zero;
  ++to.totals.problems;
  for (std::size_t way = 0; way < oracle.ways(); ++way) {
    const oracle::WayName name = oracle::ways_of(contract)[way];
    const auto stages = oracle.stages(way);
    oracle::Enclosure e = stages->enclosure(stage, at);
    const Format left = stages->rounding(stage, DType::f32).stage;
    const certify::Precision precision(certify::first_bits);
    const certify::mha::Going going{name.projected, name.heads_rounded};
    const certify::mha::Block none(contract, inputs, going, 0), wide(contract, inputs, going, many);
    const certify::Enclosure proof = none.projected(projection, at), around = wide.projected(projection, at);
    EXPECT_EQ(none.left(), left);
    if (to.planted && !e.undetermined) e.hi = step(left, step(left, round_to(left, e.hi), true), true);
    const std::string where = fmt::format("{} under {} {} way {} {}[{},{},{},{}]", mha::to_text(p), of.named.policy,
                                          of.named.numbers, way, oracle::name(stage), at[0], at[1], at[2], at[3]);
    compare({e, proof, around, left, left, flush, where}, key, to.totals, to.complaints);
    if (e.undetermined) continue;
    ++(e.lo == e.hi ? to.points : to.apart);

    // certify() of this way alone says what the interval says.
    mha::Contract alone = contract;
    for (bool& permitted : alone.projections) permitted = false;
    alone.projections[static_cast<std::size_t>(name.projected)] = true;
    alone.heads_rounded = name.heads_rounded;
    alone.heads_unrounded = !name.heads_rounded;
    const certify::Rounding round{left, left, flush};
    for (const double end : {round(proof.lo).least, round(proof.hi).most})
      for (const double value : {end, step(left, end, true), step(left, end, false)}) {
        if (!std::isfinite(value)) continue;
        const certify::Judgement said = judge(proof, round, value);
        if (said.answer == Answer::undecided) continue;
        EXPECT_EQ(certify::mha::certify(alone, p, {at, value, tensor}).answer, said.answer) << where << " " << value;
      }
  }
}

void compare_projection(std::uint64_t key, Projections& to) {
  const Asked of = asked(key);
  const mha::Problem& p = of.problem;
  if (p.dtype == Format::f64) return;  // an ulp of float64 is the oracle's own error
  const auto which = static_cast<std::size_t>(below(key, 3));
  const auto pick = [&](std::uint64_t salt, Index count) {
    return static_cast<Index>(below(mix(key + salt), static_cast<std::uint64_t>(count)));
  };
  compare_projection(
      of, which,
      {pick(1, p.b), pick(2, which == 0 ? p.heads : p.kv_heads), pick(3, which == 0 ? p.l : p.m), pick(4, p.head_dim)},
      key, to);
}

TEST(MhaCertificate, ProjectionsAgreeWithTheOracle) {
  const std::uint64_t problems = setting("ATTEST_CERTIFY_PROBLEMS", 600), seed = setting("ATTEST_CERTIFY_SEED", 1);
  Projections all;
  for (std::uint64_t n = 0; n < problems; ++n)
    compare_projection(mix((seed - 1) * 0x9e3779b97f4a7c15u + n + 0x71756572), all);
  for (const std::string& complaint : all.complaints) ADD_FAILURE() << complaint;
  const Totals& totals = all.totals;
  fmt::print(
      "projections: {} problems, {} elements ({} undetermined, {} points), {} values: {} inside, {} outside, {} "
      "permitted; the oracle's own error decides {}\n",
      totals.problems, totals.elements, totals.undetermined, totals.points, totals.values, totals.inside,
      totals.outside, totals.permitted, totals.edge);
  EXPECT_GE(totals.inside, totals.problems);
  EXPECT_GE(totals.outside, totals.problems);
  EXPECT_LE(totals.edge, totals.values / 50);
  EXPECT_GT(all.points, 50);
  EXPECT_GT(all.apart, 50);

  // An end two numbers off is seen.
  Projections off;
  off.planted = true;
  for (std::uint64_t n = 0; n < 60; ++n) compare_projection(mix(n + 0x71756572), off);
  EXPECT_GT(off.complaints.size(), 30u);
}

// Ends may be ties of the format, of numbers flushed to a power of two most of all. There the oracle's own error,
// however small, takes the number farther out, and the certificate, which has none, the even one: neither is wrong.
TEST(MhaCertificate, ProjectionsWhoseEndIsATie) {
  struct Case {
    const char *policy, *numbers, *problem;
    std::array<Index, 4> at;
  };
  constexpr const char* both = R"({"flush_to_zero":true,"projections":["rounded","unrounded"],"heads":"rounded"})";
  const Case cases[] = {
      {"f16-all",
       R"({"flush_to_zero":true})",
       "op=mha b=1 l=10 m=10 e=9 heads=1 kv_heads=1 head_dim=6 dtype=f16 self=1 packed=1 biases=none "
       "weights=power_of_two amplitude=0x1p-12 seed=18034939919508343671",
       {0, 0, 0, 3}},
      {"f32",
       both,
       "op=mha b=1 l=8 m=12 e=16 heads=1 kv_heads=1 head_dim=1 dtype=f32 scale=0x1p+2 align=bottom_right biases=none "
       "weights=power_of_two amplitude=0x1p-125 seed=10898719381196061419",
       {0, 0, 2, 0}},
      {"bf16",
       R"({"flush_to_zero":true,"projections":"separate"})",
       "op=mha b=1 l=9 m=8 e=8 heads=1 kv_heads=1 head_dim=2 dtype=bf16 scale=0x1p-2 padding=scattered biases=none "
       "weights=power_of_two amplitude=0x1p-125 seed=15356996436313354082",
       {0, 0, 8, 1}}};
  for (const Case& c : cases) {
    Projections one;
    compare_projection({{c.policy, c.numbers}, mha::problem_from_text(c.problem)}, 0, c.at, 1, one);
    for (const std::string& complaint : one.complaints) ADD_FAILURE() << complaint;
    EXPECT_GT(one.totals.edge, 0) << c.problem;
  }
}

}  // namespace
}  // namespace attest::certifying
