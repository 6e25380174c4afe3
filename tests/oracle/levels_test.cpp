// The quick levels never change a verdict: on conforming, faulty and planted outputs judge() says what the full
// formulas say, element counts and witness included.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "oracle/attention.hpp"
#include "oracle/call.hpp"
#include "oracle/element.hpp"
#include "oracle/reach.hpp"
#include "oracle/row.hpp"
#include "tests/oracle/draw.hpp"
#include "tests/oracle/same_verdict.hpp"

namespace attest {
namespace {

struct Totals {
  std::int64_t elements = 0, fails = 0, vacuous = 0;
};

void expect_same(const Contract& contract, const Problem& problem, const Inputs& inputs, const Tensor& out,
                 const Tensor& lse, Totals& totals) {
  const Verdict quick = oracle::AttentionOracle(contract, problem, inputs).judge(out, lse);
  const Verdict slow = oracle::AttentionOracle(contract, problem, inputs).judge_slowly(out, lse);
  SCOPED_TRACE(to_text(problem));
  testing::expect_same_verdict(quick, slow);
  totals.elements += quick.counts.judged;
  totals.fails += quick.kind == VerdictKind::fail;
  totals.vacuous += quick.kind == VerdictKind::vacuous;
}

class Levels : public ::testing::TestWithParam<std::size_t> {
 protected:
  const NamedPolicy& named = named_policies()[GetParam()];
  const Format dtype = named.policy[Stage::storage];

  // Compares outputs on the edges of their intervals, a step inside and a step outside, and NaN and infinities among
  // them: of contracts of every variant, n-th by n-th, and of the problem that draw(n) returns.
  template <class Draw>
  void agree_on_the_edges(int count, const Draw& draw, Totals& totals);
};

TEST_P(Levels, AgreeOnKernelsSoundAndFaulty) {
  Totals totals;
  for (int n = 0; n < 800; ++n) {
    const auto seed = static_cast<std::uint64_t>(n) * 31 + GetParam();
    const Contract contract = emulator::draw_any_contract(named.policy, n % emulator::all_variants);
    const Problem problem = testing::draw_problem(dtype, seed ^ 0x5eed);
    const Inputs inputs = materialise(problem);
    emulator::Variant variant = emulator::draw_variant(contract, problem, seed);
    if (n % 3 == 0) variant.defect = static_cast<emulator::Defect>(1 + n % 5);
    Tensor out = make_out(problem), lse = make_lse(problem);
    emulator::run(inputs, contract, variant, out, lse);
    expect_same(contract, problem, inputs, out, lse, totals);
    if (HasFailure()) return;
  }
  EXPECT_GE(totals.elements, 10'000);
  EXPECT_GE(totals.fails, 5);
}

// The numbers kept of a head, and of a row, from one element to the next change no enclosure.
TEST_P(Levels, KeepNothingThatChangesAnEnclosure) {
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  std::int64_t elements = 0;
  for (int n = 0; n < 120; ++n) {
    const auto seed = static_cast<std::uint64_t>(n) * 37 + GetParam();
    const Contract contract = emulator::draw_any_contract(named.policy, n % emulator::all_variants);
    const Problem problem = testing::draw_problem(dtype, seed ^ 0xbead);
    const Inputs inputs = materialise(problem);
    oracle::AttentionOracle keeps(contract, problem, inputs);
    const std::vector<Index> rows = judged_rows(problem);
    for (int time = 0; time < 2; ++time)  // the second one finds all of the head
      for (std::size_t at = 0; at < rows.size(); ++at) {
        const RowIndex r = row_index(problem, rows[at]);
        for (Index c = 0; c < problem.dv; ++c) {
          const oracle::Enclosure kept = keeps.out_enclosure(r.b, r.h, r.i, c);
          if ((static_cast<std::int64_t>(at) * problem.dv + c + n) % 41 != 0) continue;
          const oracle::Enclosure alone =
              oracle::AttentionOracle(contract, problem, inputs).out_enclosure(r.b, r.h, r.i, c);
          ASSERT_TRUE(same(kept.y, alone.y) && same(kept.lo, alone.lo) && same(kept.hi, alone.hi)) << to_text(problem);
          ASSERT_TRUE(same(kept.hull_lo, alone.hull_lo) && same(kept.hull_hi, alone.hull_hi)) << to_text(problem);
          ASSERT_EQ(kept.undetermined, alone.undetermined) << to_text(problem);
          ASSERT_EQ(kept.nonfinite_ok, alone.nonfinite_ok) << to_text(problem);
          ASSERT_EQ(kept.zero_ok, alone.zero_ok) << to_text(problem);
          ++elements;
        }
      }
  }
  EXPECT_GE(elements, 200);
}

template <class Draw>
void Levels::agree_on_the_edges(int count, const Draw& draw, Totals& totals) {
  std::uint64_t key = GetParam() + 1;
  for (int n = 0; n < count; ++n) {
    const Contract contract = emulator::draw_any_contract(named.policy, n % emulator::all_variants);
    const Problem problem = draw(n);
    const Inputs inputs = materialise(problem);
    Tensor out = make_out(problem), lse = make_lse(problem);
    oracle::AttentionOracle oracle(contract, problem, inputs);
    // Mostly on the edge; sometimes outside by one step, and rarely of another class.
    const auto plant = [&](const oracle::Enclosure& e, Format format) {
      key = mix(key);
      const bool up = (key & 1) != 0;
      double x = round_to(format, up ? e.hi : e.lo);
      switch (below(mix(key), n % 2 != 0 ? 200 : 3)) {
        case 0:
          return testing::neighbour(format, x, !up);
        case 1:
          return n % 2 != 0 ? testing::neighbour(format, x, up) : x;
        case 3:
          return std::numeric_limits<double>::quiet_NaN();
        case 4:
          return std::numeric_limits<double>::infinity();
        default:
          return x;
      }
    };
    for (Index b = 0; b < problem.b; ++b)
      for (Index h = 0; h < problem.hq; ++h)
        for (Index i = 0; i < problem.lq; ++i) {
          for (Index c = 0; c < problem.dv; ++c) out.set(b, h, i, c, plant(oracle.out_enclosure(b, h, i, c), dtype));
          if (lse.present()) lse.set(b, h, i, 0, plant(oracle.lse_enclosure(b, h, i), format_of(lse.dtype())));
        }
    expect_same(contract, problem, inputs, out, lse, totals);
    if (HasFailure()) return;
  }
}

TEST_P(Levels, AgreeOnTheEdges) {
  Totals totals;
  const auto any = [&](int n) {
    return testing::draw_problem(dtype, static_cast<std::uint64_t>(n) * 131 + GetParam());
  };
  agree_on_the_edges(600, any, totals);
  EXPECT_GE(totals.elements, 10'000);
  EXPECT_GE(totals.fails, 20);
}

// Rows beyond what the quick levels bound, with others among them: scores at the end of their format, whose weights the
// full formulas know, and elements that lie between means over these.
TEST_P(Levels, AgreeOnTheEdgesOfRowsWithoutQuickBounds) {
  Totals totals;
  const auto hard = [&](int n) {
    Problem problem = testing::draw_problem(dtype, static_cast<std::uint64_t>(n) * 151 + GetParam());
    constexpr Bias biases[] = {Bias::lowest, Bias::empty_lowest};
    if (n % 4 != 0) problem.bias = biases[n % 2];
    if (n % 4 == 0 || n % 7 == 0) problem.values = n % 8 == 0 ? Values::ends : Values::huge;
    if (n % 5 == 0) problem.scale = 0x1p+13;
    return problem;
  };
  agree_on_the_edges(300, hard, totals);
  EXPECT_GE(totals.elements, 2'000);
  EXPECT_GE(totals.fails, 20);
}

// Rows to which masks leave no key are settled before the full formulas, whatever a contract says of them and stands
// there.
TEST_P(Levels, AgreeOnRowsWithoutKeys) {
  Totals totals;
  for (const char* masks :
       {"keep=closed", "keep=some_empty", "causal=1 align=bottom_right", "lengths=some_zero",
        "keep=some_empty bias=empty_inf", "keep=closed values=huge:1", "keep=some_empty values=normal:1",
        "bias=empty_inf", "bias=empty_inf values=huge:1", "keep=some_empty bias=minus_inf softcap=2"})
    for (const EmptyRow rule : {EmptyRow::unspecified, EmptyRow::zero, EmptyRow::nan, EmptyRow::mean_v})
      for (const bool added : {false, true})
        for (const double planted : {0.0, 1.0, -0.0, HUGE_VAL, std::nan("")}) {
          Contract contract = emulator::draw_any_contract(named.policy, 0);
          contract.empty_row = rule;
          contract.mask_added = added;
          const Problem problem = problem_from_text(
              "b=3 hq=2 hkv=1 lq=5 lk=3 d=2 dv=3 lse=f32 seed=4 dtype=" + std::string(name(dtype)) + " " + masks);
          const Inputs inputs = materialise(problem);
          Tensor out = make_out(problem), lse = make_lse(problem);
          oracle::AttentionOracle oracle(contract, problem, inputs);
          for (Index b = 0; b < problem.b; ++b)
            for (Index h = 0; h < problem.hq; ++h)
              for (Index i = 0; i < problem.lq; ++i) {
                for (Index c = 0; c < problem.dv; ++c) {
                  const oracle::Enclosure e = oracle.out_enclosure(b, h, i, c);
                  const bool last = b == 2 && h == 1 && c == 2;
                  out.set(b, h, i, c, e.empty_row && last ? planted : e.y);
                }
                lse.set(b, h, i, 0, oracle.lse_enclosure(b, h, i).y);
              }
          expect_same(contract, problem, inputs, out, lse, totals);
          if (HasFailure()) return;
        }
  EXPECT_GE(totals.fails, 20);
}

// The enclosure of a log-sum-exp in rows that masks close is known without the full formulas, from an earlier verdict
// or without one.
TEST_P(Levels, AgreeOnTheLogSumExpOfRowsThatMasksClose) {
  int closed = 0;
  for (int n = 0; n < 300; ++n) {
    const auto seed = static_cast<std::uint64_t>(n) * 57 + GetParam();
    Contract contract = emulator::draw_any_contract(named.policy, n % emulator::all_variants);
    Problem problem = testing::draw_problem(dtype, seed ^ 0x15e);
    if (n % 3 == 0) problem.values = Values::huge;
    if (n % 4 == 0) problem.rows = (problem.b * problem.hq * problem.lq + 1) / 2;
    Inputs inputs = materialise(problem);
    if (n % 5 == 0 && inputs.q.size() > 0) inputs.q.set(0, 0, 0, 0, std::numeric_limits<double>::infinity());
    Tensor out = make_out(problem), lse = make_lse(problem);
    emulator::run(inputs, contract, {}, out, lse);
    if (n % 2) contract.mask_added = true;
    oracle::AttentionOracle judged(contract, problem, inputs), fresh(contract, problem, inputs);
    judged.judge(out, lse);
    const oracle::Call call(contract, problem, inputs);
    for (Index b = 0; b < problem.b; ++b)
      for (Index h = 0; h < problem.hq; ++h)
        for (Index i = 0; i < problem.lq; ++i) {
          oracle::Row row;
          row.evaluate(call, oracle::head_facts(call, b, call.kv_head(h)), b, h, i);
          const oracle::Enclosure full = oracle::lse_enclosure_of(call, row);
          for (oracle::AttentionOracle* one : {&judged, &fresh}) {
            const oracle::Enclosure told = one->lse_enclosure(b, h, i);
            const bool same = told.y == full.y || (std::isnan(told.y) && std::isnan(full.y));
            EXPECT_TRUE(same && told.lo == full.lo && told.hi == full.hi && told.nonfinite_ok == full.nonfinite_ok &&
                        told.undetermined == full.undetermined && told.empty_row == full.empty_row &&
                        told.expect == full.expect)
                << to_text(problem) << ": " << b << ", " << h << ", " << i;
          }
          closed += full.empty_row;
        }
  }
  EXPECT_GT(closed, 100);
}

// Rows without products, whose scores are all 0 but for a bias, and rows that give a log-sum-exp alone.
TEST_P(Levels, AgreeWithoutProductsOrColumns) {
  Totals totals;
  for (int n = 0; n < 300; ++n) {
    const auto seed = static_cast<std::uint64_t>(n) * 57 + GetParam();
    const Contract contract = emulator::draw_any_contract(named.policy, n % emulator::all_variants);
    Problem problem = testing::draw_problem(dtype, seed);
    if (n % 3 != 0) problem.d = 0;
    if (n % 3 != 1) problem.dv = 0;
    if (n % 2 == 0) problem.lse = n % 4 == 0 ? LseOutput::f64 : LseOutput::f32;
    if (n % 5 == 0) problem.lq *= 9;
    const Inputs inputs = materialise(problem);
    Tensor out = make_out(problem), lse = make_lse(problem);
    emulator::run(inputs, contract, emulator::draw_variant(contract, problem, seed), out, lse);
    if (n % 7 == 3 && lse.present()) lse.set(0, 0, problem.lq - 1, 0, 3);
    expect_same(contract, problem, inputs, out, lse, totals);
    oracle::AttentionOracle oracle(contract, problem, inputs);
    testing::expect_same_verdict(oracle.judge(out, lse), oracle.judge_slowly(out, lse));
    if (HasFailure()) return;
  }
  EXPECT_GE(totals.elements, 1000);
  EXPECT_GE(totals.fails, 5);
}

// A poor exp may make the sum of the weights infinite: no level judges a finite number of such a row.
TEST(LevelsOfARow, AgreeWhereAPoorExpMayMakeTheSumInfinite) {
  const Problem problem = problem_from_text("lq=3 lk=100 d=4 dv=5 dtype=f16 lse=f32 values=normal:0x1p-6");
  Contract contract = contract_for(policy_from_text("f16-softmax16"));
  Totals totals;
  const Inputs inputs = materialise(problem);
  Tensor out = make_out(problem), lse = make_lse(problem);
  emulator::run(inputs, contract, {}, out, lse);
  expect_same(contract, problem, inputs, out, lse, totals);
  EXPECT_EQ(totals.elements, 18);
  contract.arithmetic.exp_ulp = 100;
  expect_same(contract, problem, inputs, out, lse, totals);
  EXPECT_EQ(totals.elements, 18);
}

// The bounds that serve all rows of few keys are more than any of them needs, and less than rows of many keys need.
TEST_P(Levels, BoundTheReachOfFewKeys) {
  std::uint64_t key = GetParam() << 32;
  const auto uniform = [&key] { return static_cast<double>(mix(++key) >> 11) * 0x1p-53; };
  for (int variant = 0; variant < emulator::all_variants; ++variant) {
    const Contract contract = emulator::draw_any_contract(named.policy, variant);
    Problem problem;
    problem.dtype = dtype;
    const Inputs inputs = materialise(problem);
    const oracle::Call call(contract, problem, inputs);
    const auto reach = [&](double keys, double size, double max_abs) {
      const oracle::RowBounds row{static_cast<Index>(keys),
                                  oracle::few_keys_e * size,
                                  oracle::few_keys_d * size,
                                  oracle::few_keys_z * size,
                                  std::log(keys),
                                  keys - 1,
                                  call.numbers.merged_a2(keys)};
      return oracle::largest_reach(call, row.numbers(call.numbers), max_abs);
    };
    for (const double max_abs : {0.0, 1e-300, 1e-30, 1e-3, 1.0, 300.0, 1e30}) {
      const double few = oracle::few_keys_reach(call, max_abs);
      for (int n = 0; n < 20; ++n) {
        const double keys = 1 + std::floor(uniform() * oracle::few_keys);
        EXPECT_GE(few, reach(keys, uniform(), max_abs)) << keys << ", " << max_abs;
      }
      EXPECT_GE(few, reach(oracle::few_keys, 1, max_abs)) << max_abs;
      const bool underflow_rules = max_abs < 1e-3;
      EXPECT_TRUE(underflow_rules || few < reach(10 * oracle::few_keys, 1, max_abs)) << max_abs;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, Levels, ::testing::Range<std::size_t>(0, 9));

}  // namespace
}  // namespace attest
