// judge() agrees with the full formulas of docs/bounds.md on every element. Problems and contracts are random; outputs
// are those of sound and of faulty kernels, and numbers planted on the edges of intervals.
//
// ATTEST_UNHURRIED_PROBLEMS (6000) and ATTEST_UNHURRIED_SEED (1) choose the problems.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"
#include "tests/oracle/draw.hpp"
#include "tests/oracle/same_verdict.hpp"
#include "tests/setting.hpp"

namespace attest {
namespace {

enum class Outputs : std::uint8_t { sound, faulty, edges };
constexpr std::uint64_t kinds = 4;  // half of them edges

struct Case {
  Problem problem;
  Contract contract;
  Inputs inputs;
  Tensor out, lse;

  Case(std::uint64_t number, std::uint64_t seed)
      : problem(testing::draw_problem(named_policies()[number % 9].policy[Stage::storage], mix(number + (seed << 32)))),
        contract(emulator::draw_any_contract(named_policies()[number % 9].policy,
                                             static_cast<int>(number / 9 % emulator::all_variants))),
        inputs(materialise(problem)),
        out(make_out(problem)),
        lse(make_lse(problem)),
        key_(mix(number ^ seed)) {
    const auto kind = static_cast<Outputs>(std::min<std::uint64_t>(key_ % kinds, 2));
    emulator::Variant variant = emulator::draw_variant(contract, problem, key_);
    if (kind == Outputs::faulty) variant.defect = static_cast<emulator::Defect>(1 + number % 6);
    emulator::run(inputs, contract, variant, out, lse);
    if (kind == Outputs::edges) plant();
  }

 private:
  // On an edge, or a step off it. Few go outside, since the first that does ends the verdict.
  void plant() {
    oracle::AttentionOracle oracle(contract, problem, inputs);
    const auto draw = [&](std::uint64_t n) { return below(key_ = mix(key_), n); };
    for (const Index flat : judged_rows(problem)) {
      const RowIndex r = row_index(problem, flat);
      for (Index c = 0; c < problem.dv; ++c) {
        const bool up = draw(2) != 0, step_out = draw(100) == 0;
        const oracle::Enclosure e = oracle.out_enclosure(r.b, r.h, r.i, c);
        const double planted = round_to(problem.dtype, up ? e.hi : e.lo);
        if (std::isnan(planted)) continue;
        out.set(r.b, r.h, r.i, c, draw(2) == 0 ? planted : testing::neighbour(problem.dtype, planted, step_out == up));
      }
    }
  }

  std::uint64_t key_;
};

struct Totals {
  std::int64_t problems = 0, elements = 0, fails = 0, vacuous = 0;
};

void check(const Case& c, Totals& totals) {
  SCOPED_TRACE(to_text(c.problem));
  const Verdict quick = oracle::AttentionOracle(c.contract, c.problem, c.inputs).judge(c.out, c.lse);
  const Verdict slow = oracle::AttentionOracle(c.contract, c.problem, c.inputs).judge_slowly(c.out, c.lse);
  testing::expect_same_verdict(quick, slow);
  ++totals.problems;
  totals.elements += slow.counts.judged;
  totals.fails += slow.kind == VerdictKind::fail;
  totals.vacuous += slow.kind == VerdictKind::vacuous;
}

// Values of a few subnormal steps: the roundings of one way of normalising beside the underflow of another exceed the
// error of either way.
TEST(Unhurried, WaysOfNormalisingAreNotMixed) {
  Totals totals;
  check(Case(33872, 315), totals);
  EXPECT_EQ(totals.fails, 1);
}

TEST(Unhurried, VerdictsAreTheSame) {
  const std::uint64_t problems = setting("ATTEST_UNHURRIED_PROBLEMS", 6000), seed = setting("ATTEST_UNHURRIED_SEED", 1);
  Totals totals;
  for (std::uint64_t n = 0; n < problems; ++n) {
    check(Case(n, seed), totals);
    if (HasFailure()) return;
  }
  const auto count = [](std::int64_t x) { return static_cast<long>(x); };
  std::printf("%ld problems, %ld elements: %ld fail, %ld vacuous\n", count(totals.problems), count(totals.elements),
              count(totals.fails), count(totals.vacuous));
  EXPECT_GE(totals.fails, totals.problems / 20);
}

}  // namespace
}  // namespace attest
