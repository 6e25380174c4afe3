// Tensor cores (docs/bounds.md, section 4c): the emulated unit against measured results of real ones, sums that lose as
// much as blocks can, contracts that say too much, and bits that are lost.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "kernels/mma.hpp"
#include "oracle/attention.hpp"
#include "oracle/numbers.hpp"
#include "tests/oracle/draw.hpp"

namespace attest {
namespace {

using emulator::Blocks;
using emulator::Normalise;
using emulator::Variant;
using kernels::MmaUnit;

Mma generation(const char* name) { return *mma_of_generation(name, policy_from_text("f16")); }

double chained(const char* name, const std::vector<double>& a, const std::vector<double>& b, double c) {
  const Mma mma = generation(name);
  return MmaUnit(mma, Format::f32, Format::f16)
      .chain(c, a.data(), 1, b.data(), 1, static_cast<Index>(a.size()), mma.block);
}

// 2^23 - 2^23 - 0.5 - 0.25 - 0.125 as the real units give it (arXiv 2511.10909, table 8).
TEST(MmaUnit, GivesWhatRealOnesGive) {
  const std::vector<double> a{-0x1p13, -0.5, -0.25, -0.125}, b{0x1p10, 1, 1, 1};
  EXPECT_EQ(chained("volta", a, b, 0x1p23), 0);
  EXPECT_EQ(chained("turing", a, b, 0x1p23), -0.5);
  EXPECT_EQ(chained("ampere", a, b, 0x1p23), -0.5);
  EXPECT_EQ(chained("hopper", a, b, 0x1p23), -0.75);
  EXPECT_EQ(chained("hopper-fp8", a, b, 0x1p23), 0);
}

TEST(MmaUnit, CutsTowardZeroAndAtItsOwnPlace) {
  const auto one = [](const Mma& mma, Format accumulator, double c, double a, double b) {
    return MmaUnit(mma, accumulator, Format::f16).block(c, &a, 1, &b, 1, 1);
  };
  const Mma volta = generation("volta"), hopper = generation("hopper"),
            narrow{.block = 4, .frac = 24, .out = MmaResult::f16};
  for (const double sign : {1.0, -1.0}) {
    EXPECT_EQ(one(volta, Format::f32, sign, sign * 0x1.FFCp-13, 0x1p-11), sign);  // just below 2^-23
    EXPECT_EQ(one(volta, Format::f32, sign, sign * 0x1p-12, 0x1p-11), sign * (1 + 0x1p-23));
    EXPECT_EQ(one(hopper, Format::f32, sign, -sign * 0x1p-14, 0x1p-11), sign * (1 - 0x1p-24));  // 1 - 2^-25, cut
    EXPECT_EQ(one(narrow, Format::f16, sign, sign * 0x1.8p-11, 1), sign * (1 + 0x1p-10));       // to nearest
  }
  // An overflow is infinite; a subnormal result keeps its place.
  EXPECT_EQ(one(volta, Format::f32, 0x1.FFFFFEp127, 0x1p15, 0x1p15), 0x1.FFFFFEp127);
  EXPECT_TRUE(std::isinf(
      MmaUnit(volta, Format::f32, Format::bf16)
          .block(0x1.FFFFFEp127, std::vector<double>{0x1p104}.data(), 1, std::vector<double>{1}.data(), 1, 1)));
  EXPECT_EQ(MmaUnit(volta, Format::f32, Format::bf16)
                .block(0, std::vector<double>{0x1.8p-75}.data(), 1, std::vector<double>{0x1p-75}.data(), 1, 1),
            0);
  EXPECT_EQ(MmaUnit(volta, Format::f32, Format::bf16)
                .block(0, std::vector<double>{0x1.8p-75}.data(), 1, std::vector<double>{0x1p-74}.data(), 1, 1),
            0x1p-149);
}

// The row's one heavy product comes first, and all others are just below what is cut: T is lost but for little.
struct Losing {
  const char* mma;
  Index products;
  double share;  // share of T
};

TEST(MmaUnit, LosesAlmostAllOfWhatTheBoundGrants) {
  for (const Losing& c : {Losing{"volta", 4096, 0.99}, Losing{"ampere", 4096, 0.85}, Losing{"hopper", 4096, 0.40},
                          Losing{"hopper-fp8", 1024, 0.80}}) {
    const Mma mma = generation(c.mma);
    std::vector<double> a(static_cast<std::size_t>(c.products), std::ldexp(0x1.FFCp-1, -mma.frac / 2)),
        b(a.size(), std::ldexp(1.0, mma.frac / 2 - mma.frac));
    a[0] = b[0] = 1;
    double exact = 0;
    for (std::size_t t = 0; t < a.size(); ++t) exact += a[t] * b[t];
    const double got = MmaUnit(mma, Format::f32, Format::f16).chain(0, a.data(), 1, b.data(), 1, c.products, mma.block);
    const oracle::BlockSums sums(mma, Format::f32, 20, unit_roundoff(Format::f32), true);
    const double granted = sums.relative(static_cast<double>(c.products), static_cast<double>(c.products / mma.block));
    const double ratio = (exact - got) / (granted * exact);
    std::printf("%s: %.3g of 1 lost, %.3g granted, ratio %.3f\n", c.mma, (exact - got) / exact, granted, ratio);
    EXPECT_LE(ratio, 1) << c.mma;
    EXPECT_GE(ratio, c.share) << c.mma;
  }
}

// The verdict on the one score of a row, by its log-sum-exp. The first product is 1, and the others are just below the
// unit to which the kernel cuts.
struct Judged {
  VerdictKind kind;
  double ratio;  // the error over the permitted one
};

Judged judge_score(const char* declared, const char* used, emulator::Defect defect = emulator::Defect::none) {
  const auto contract_of = [](const char* mma) {
    return contract_from_json({{"mma", mma},
                               {"exp2", false},
                               {"lse_merge", "none"},
                               {"fold", "none"},
                               {"normalise", "after"},
                               {"sum_of", "unrounded"},
                               {"lazy", 0}},
                              policy_from_text("f16"));
  };
  const Contract promised = contract_of(declared), kept = contract_of(used);
  const Problem problem = problem_from_text("lq=1 lk=1 d=1024 dv=1 scale=1 dtype=f16 lse=f64");
  Inputs inputs = materialise(problem);
  const int frac = kept.arithmetic.mma->frac - (defect == emulator::Defect::bits_lost ? 3 : 0);
  for (Index c = 0; c < problem.d; ++c) {
    inputs.q.set(0, 0, 0, c, c == 0 ? 1 : std::ldexp(0x1.FFCp-1, -frac / 2));
    inputs.k.set(0, 0, 0, c, c == 0 ? 1 : std::ldexp(1.0, frac / 2 - frac));
  }
  Variant kernel;
  kernel.blocks_qk = Blocks::chained;
  kernel.defect = defect;
  Tensor out = make_out(problem), lse = make_lse(problem);
  emulator::run(inputs, kept, kernel, out, lse);
  oracle::AttentionOracle oracle(promised, problem, inputs);
  const oracle::Enclosure e = oracle.lse_enclosure(0, 0, 0);
  const double got = lse.at(0, 0, 0, 0);
  return {oracle.judge(out, lse).kind, std::fabs(got - e.y) / (got < e.y ? e.y - e.lo : e.hi - e.y)};
}

struct Own {
  const char* mma;
  double share;
};

TEST(TensorCores, AreJudgedAsDeclared) {
  for (const Own& own : {Own{"volta", 0.95}, Own{"ampere", 0.85}, Own{"hopper", 0.42}, Own{"8/25/f32/only", 0.65},
                         Own{"16/25/f32/only", 0.75}, Own{"hopper-fp8", 0.7}}) {
    const Judged judged = judge_score(own.mma, own.mma);
    std::printf("%s: %.3f of what is granted\n", own.mma, judged.ratio);
    EXPECT_NE(judged.kind, VerdictKind::fail) << own.mma;
    EXPECT_GE(judged.ratio, own.share) << own.mma;
    EXPECT_EQ(judge_score(own.mma, own.mma, emulator::Defect::bits_lost).kind, VerdictKind::fail) << own.mma;
  }
  for (const char* less : {"ampere", "hopper", "8/25/f32/only"})
    EXPECT_EQ(judge_score(less, "volta").kind, VerdictKind::fail) << less;
  EXPECT_EQ(judge_score("8/25/f32/only", "ampere").kind, VerdictKind::fail);
  for (const char* less : {"volta", "ampere", "hopper"})
    EXPECT_EQ(judge_score(less, "hopper-fp8").kind, VerdictKind::fail) << less;
  // More bits are no defect.
  for (const char* more : {"ampere", "hopper", "8/25/f32/only"})
    EXPECT_NE(judge_score("volta", more).kind, VerdictKind::fail) << more;
}

}  // namespace
}  // namespace attest
