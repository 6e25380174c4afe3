// The quick level and the whole formulas say the same: of kernels right and wrong, and of values on the ends of the
// intervals, one step inside and one outside.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/directed.hpp"
#include "core/rng.hpp"
#include "kernels/layer_norm/emulated/draw.hpp"
#include "kernels/layer_norm/registry.hpp"
#include "oracle/layer_norm/oracle.hpp"
#include "tests/setting.hpp"

namespace attest::oracle::layer_norm {
namespace {

namespace emulated = attest::emulator::layer_norm;
namespace norm_kernels = attest::kernels::layer_norm;
using attest::layer_norm::make_out;
using attest::layer_norm::make_sum_out;
using attest::layer_norm::policy_from_text;

void expect_equal(const Verdict& quick, const Verdict& slow, const std::string& where) {
  EXPECT_EQ(quick.kind, slow.kind) << where;
  EXPECT_EQ(quick.reason, slow.reason) << where;
  EXPECT_EQ(quick.counts.judged, slow.counts.judged) << where;
  EXPECT_EQ(quick.counts.undetermined, slow.counts.undetermined) << where;
  EXPECT_EQ(quick.counts.wide, slow.counts.wide) << where;
  ASSERT_EQ(quick.evidence.has_value(), slow.evidence.has_value()) << where;
  if (!quick.evidence) return;
  EXPECT_EQ(quick.evidence->index, slow.evidence->index) << where;
  EXPECT_EQ(quick.evidence->lo, slow.evidence->lo) << where;
}

TEST(LayerNormLevels, KernelsRightAndWrong) {
  constexpr const char* policies[] = {"f32", "f16", "bf16", "f64", "f32,statistics=f64", "f16,affine=f16"};
  std::vector<const norm_kernels::KernelEntry*> kernels;
  for (const auto& kernel : norm_kernels::builtin_kernels()) kernels.push_back(&kernel);
  for (const auto& kernel : norm_kernels::fault_kernels()) kernels.push_back(&kernel);
  for (std::uint64_t n = 0; n < setting("ATTEST_LAYER_NORM_PROBLEMS", 1500); ++n) {
    const auto& kernel = *kernels[n % kernels.size()];
    const Contract contract = kernel.contract(policy_from_text(policies[n % std::size(policies)]));
    const Problem problem = emulated::draw_problem(contract, 8192, n);
    const Inputs inputs = materialise(problem);
    const Tensor out = make_out(problem), sum = make_sum_out(problem);
    kernel.run(inputs.call(out, sum), contract);
    LayerNormOracle oracle(contract, problem, inputs);
    expect_equal(oracle.judge(out, sum), oracle.judge_slowly(out, sum),
                 std::string(kernel.name) + " " + to_text(problem));
  }
}

// Rows whose every element is a value near an end of its interval: the first that is outside must be the same.
TEST(LayerNormLevels, EndsOfIntervals) {
  constexpr const char* policies[] = {"f32", "f16", "bf16"};
  for (std::uint64_t n = 0; n < 1200; ++n) {
    Contract contract = attest::layer_norm::contract_for(policy_from_text(policies[n % 3]));
    contract.arithmetic.variance = static_cast<Variance>(n / 3 % 5);
    if (n % 2) contract.arithmetic.depth = Index{12};
    Problem problem = emulated::draw_problem(contract, 600, n);
    if (n % 4 < 3) problem.values = attest::layer_norm::Values::normal, problem.offset = 0, problem.amplitude = 1;
    problem.residual = attest::layer_norm::Residual::none;
    problem.sum_out = false;
    const Inputs inputs = materialise(problem);
    Tensor out = make_out(problem);
    LayerNormOracle oracle(contract, problem, inputs);
    const Format format = problem.dtype;
    for (const int outward : {0, 1})
      for (int one = 0; one < 4; ++one) {
        for (Index r = 0; r < problem.rows; ++r)
          for (Index i = 0; i < problem.hidden; ++i) {
            const Enclosure e = oracle.interval(r, i).enclosure;
            const bool up = (mix(n ^ static_cast<std::uint64_t>(r * 70001 + i)) & 1) != 0;
            double value = round_to(format, up ? e.hi : e.lo);
            // Only few elements of a row leave, so that some of the others are looked at first.
            const bool leaves = outward && (i * 4 + one) % 37 == 36;
            if (leaves || !outward) {
              const double away =
                  std::max(std::fabs(value) * 2 * unit_roundoff(format), 2 * half_smallest_subnormal(format));
              if (leaves) value = round_toward(format, up ? value + away : value - away, up);
            }
            out.set(r, i, 0, 0, value);
          }
        expect_equal(oracle.judge(out, {}), oracle.judge_slowly(out, {}), to_text(problem));
      }
  }
}

// Ends of intervals in f64 are doubles as out is, subnormal ones too: one element lies a step outside.
TEST(LayerNormLevels, EndsOfIntervalsInDouble) {
  using attest::layer_norm::Weights;
  constexpr Weights weights[] = {Weights::tiny, Weights::none, Weights::normal, Weights::zero, Weights::wide};
  int failing = 0;
  for (std::uint64_t n = 0; n < 400; ++n) {
    Contract contract = attest::layer_norm::contract_for(policy_from_text("f64"));
    contract.arithmetic.variance = static_cast<Variance>(n % 5);
    Problem problem = emulated::draw_problem(contract, 200, n);
    problem.gamma = weights[n % 7 < 3 ? 0 : n % 5];
    problem.beta = weights[n % 3];
    problem.residual = attest::layer_norm::Residual::none;
    problem.sum_out = false;
    const Inputs inputs = materialise(problem);
    Tensor out = make_out(problem);
    LayerNormOracle oracle(contract, problem, inputs);
    const Index elements = problem.rows * problem.hidden;
    for (const int wrong : {0, 1}) {
      const Index leaves = wrong ? static_cast<Index>(below(mix(n), static_cast<std::uint64_t>(elements + 1))) : -1;
      for (Index r = 0; r < problem.rows; ++r)
        for (Index i = 0; i < problem.hidden; ++i) {
          const Enclosure e = oracle.interval(r, i).enclosure;
          const bool up = (mix(n ^ static_cast<std::uint64_t>(r * 70001 + i)) & 1) != 0;
          double value = up ? e.hi : e.lo;
          if (r * problem.hidden + i == leaves) value = std::nextafter(value, up ? infinity : -infinity);
          out.set(r, i, 0, 0, value);
        }
      const Verdict quick = oracle.judge(out, {});
      expect_equal(quick, oracle.judge_slowly(out, {}), to_text(problem));
      failing += quick.kind == VerdictKind::fail;
    }
  }
  EXPECT_GT(failing, 100);
}

// Tiny x, tiny and huge gamma, rows close to a constant, an epsilon that is nearly all of the root's argument: one
// element at a time lies a step outside, or on an end; the others lie where they should.
TEST(LayerNormLevels, EachElementOfTinyAndHugeDoubles) {
  using attest::layer_norm::Values, attest::layer_norm::Weights;
  constexpr Values values[] = {Values::tiny, Values::normal, Values::heavy, Values::sparse, Values::near_constant};
  constexpr Weights weights[] = {Weights::normal, Weights::tiny,   Weights::huge,
                                 Weights::none,   Weights::sparse, Weights::wide};
  constexpr double amplitudes[] = {1, 0x1p-19, 0x1p-40, 0x1p20};
  int failing = 0, passing = 0;
  for (std::uint64_t n = 0; n < setting("ATTEST_LAYER_NORM_PROBLEMS", 4000) / 10; ++n) {
    const std::uint64_t key = extend(mix(setting("ATTEST_LAYER_NORM_SEED", 7) + 99), n);
    Contract contract = attest::layer_norm::contract_for(policy_from_text("f64"));
    contract.arithmetic.variance = static_cast<Variance>(n % 5);
    contract.arithmetic.depth = Index{6};
    contract.gamma_offset = n % 7 == 0;
    Problem problem = emulated::draw_problem(contract, 150, key);
    problem.values = values[below(extend(key, 1), std::size(values))];
    problem.gamma = weights[below(extend(key, 2), std::size(weights))];
    problem.beta = weights[below(extend(key, 3), std::size(weights))];
    problem.amplitude = amplitudes[below(extend(key, 4), std::size(amplitudes))];
    problem.offset = 0;
    problem.residual = attest::layer_norm::Residual::none;
    problem.sum_out = false;
    if (n % 3) problem.epsilon = 0x1p-20;
    const Inputs inputs = materialise(problem);
    Tensor out = make_out(problem);
    LayerNormOracle oracle(contract, problem, inputs);
    const auto put = [&](Index r, Index i, double share, bool up) {
      const Enclosure e = oracle.interval(r, i).enclosure;
      const double end = up ? e.hi : e.lo;
      if (!std::isfinite(end)) return out.set(r, i, 0, 0, e.y);
      double value = share < 1 ? e.y + (end - e.y) * share : end;
      if (share > 1) value = std::nextafter(value, up ? infinity : -infinity);
      out.set(r, i, 0, 0, value);
    };
    for (Index r = 0; r < problem.rows; ++r)
      for (Index i = 0; i < problem.hidden; ++i) put(r, i, 0.5, i % 2 == 0);
    const Index rows = std::min<Index>(problem.rows, 3), step = std::max<Index>(1, problem.hidden / 8);
    for (Index r = 0; r < rows; ++r)
      for (Index i = 0; i < problem.hidden; i += step)
        for (const bool up : {false, true}) {
          for (const double share : {1.0, 2.0}) {
            put(r, i, share, up);
            const Verdict quick = oracle.judge(out, {});
            expect_equal(quick, oracle.judge_slowly(out, {}), to_text(problem));
            ++(quick.kind == VerdictKind::fail ? failing : passing);
          }
          put(r, i, 0.5, i % 2 == 0);
        }
  }
  EXPECT_GT(failing, 1000);
  EXPECT_GT(passing, 1000);
}

// Every value from the reference out to well past the end: accepted quickly only if it is inside.
TEST(LayerNormLevels, NothingOutsideIsAccepted) {
  constexpr const char* policies[] = {"f32", "f16", "f64"};
  for (std::uint64_t n = 0; n < 450; ++n) {
    Contract contract = attest::layer_norm::contract_for(policy_from_text(policies[n % 3]));
    contract.arithmetic.variance = static_cast<Variance>(n % 5);
    Problem problem = emulated::draw_problem(contract, 300, n);
    problem.rows = 1;
    problem.values = n % 3 ? attest::layer_norm::Values::normal : attest::layer_norm::Values::uniform;
    problem.offset = 0, problem.amplitude = 1;
    const Inputs inputs = materialise(problem);
    Tensor out = make_out(problem);
    LayerNormOracle oracle(contract, problem, inputs);
    for (int step = 0; step < 24; ++step) {
      const double share = 0.8 + 0.02 * step;  // share of the way to the end
      for (Index i = 0; i < problem.hidden; ++i) {
        const Enclosure e = oracle.interval(0, i).enclosure;
        const double end = i % 2 ? e.hi : e.lo;
        out.set(0, i, 0, 0, std::isfinite(end) ? e.y + (end - e.y) * share : e.y);
      }
      expect_equal(oracle.judge(out, {}), oracle.judge_slowly(out, {}), to_text(problem));
    }
  }
}

// The outputs of a kernel that takes a contract to its ends, each by `key`, and the oracle of that problem. Both levels
// must judge them alike.
struct AtTheEnds {
  AtTheEnds(const Contract& contract, const Problem& problem, std::uint64_t key)
      : inputs(materialise(problem)),
        out(make_out(problem)),
        sum(make_sum_out(problem)),
        oracle(contract, problem, inputs),
        where(to_text(contract.policy) + " " + to_text(problem)) {
    const bool rms = problem.norm == attest::layer_norm::Norm::rms;
    emulated::run(inputs, contract, emulated::draw_scheme(contract, problem.hidden, rms, key), out, sum);
    expect_equal(oracle.judge(out, sum), oracle.judge_slowly(out, sum), where);
  }

  const Inputs inputs;
  Tensor out, sum;
  LayerNormOracle oracle;
  const std::string where;
};

// Contracts that differ in every number: kernels that take them to their ends, and values on the ends of the intervals,
// a step outside and well past them, between numbers that are no numbers and exactly beta.
TEST(LayerNormLevels, ContractsOfEveryNumber) {
  for (std::uint64_t n = 0; n < setting("ATTEST_LAYER_NORM_PROBLEMS", 4000); ++n) {
    const std::uint64_t key = extend(mix(setting("ATTEST_LAYER_NORM_SEED", 7)), n);
    const Contract contract = emulated::draw_contract(key);
    const Problem problem = emulated::draw_problem(contract, 2048, key);
    AtTheEnds ends(contract, problem, key);
    auto& [inputs, out, sum, oracle, where] = ends;
    const Format format = problem.dtype;
    for (const int leaving : {0, 1, 2}) {
      for (Index r = 0; r < problem.rows; ++r)
        for (Index i = 0; i < problem.hidden; ++i) {
          const std::uint64_t dice = extend(key, static_cast<std::uint64_t>((r * 70001 + i) * 3 + leaving));
          const Enclosure e = oracle.interval(r, i).enclosure;
          const double end = dice % 2 ? e.hi : e.lo,
                       share = leaving == 0 ? 1 : 0.5 + static_cast<double>(dice >> 8 & 63) / 100;
          double value = round_to(format, std::isfinite(end) && std::isfinite(e.y) ? e.y + (end - e.y) * share : e.y);
          if (leaving == 2 && dice % 97 == 5) value = std::nextafter(value, dice % 2 ? infinity : -infinity);
          if (leaving == 1 && dice % 41 == 3) value = std::numeric_limits<double>::quiet_NaN();
          if (leaving == 1 && dice % 41 == 4) value = infinity;
          if (leaving == 0 && dice % 41 == 5) value = inputs.beta.present() ? inputs.beta.at(i) : 0;
          out.set(r, i, 0, 0, value);
        }
      expect_equal(oracle.judge(out, sum), oracle.judge_slowly(out, sum),
                   where + " leaving " + std::to_string(leaving));
    }
    if (HasFailure()) break;
  }
}

// Both levels find an infinity of either sign wrong where beta is near the end of the range and nothing is left of t.
TEST(LayerNormLevels, AnInfinityBesideAHugeBeta) {
  for (const char* const rows : {"rows=35 hidden=8", "rows=1 hidden=8", "rows=3 hidden=200"})
    for (std::uint64_t n = 1; n <= 20; ++n) {
      Problem problem = attest::layer_norm::problem_from_text(
          std::string(rows) + " dtype=f64 norm=rms gamma=zero beta=huge values=integers amplitude=500");
      problem.seed = n;
      const Contract contract = attest::layer_norm::contract_for(policy_from_text("f64"));
      const Inputs inputs = materialise(problem);
      Tensor out = make_out(problem), none;
      emulated::run(inputs, contract, {}, out, none);
      out.set(0, static_cast<Index>(n % 8), 0, 0, n % 2 ? infinity : -infinity);
      LayerNormOracle oracle(contract, problem, inputs);
      const Verdict quick = oracle.judge(out, {});
      expect_equal(quick, oracle.judge_slowly(out, {}), to_text(problem));
      EXPECT_EQ(quick.kind, VerdictKind::fail) << to_text(problem);
    }
}

// Where the mean may be off by more than elements lie from it, and gamma is near the end of the range, intervals are
// the whole line: an infinity is no more than permitted there, so that nothing is judged, and no finite number can be
// wrong.
TEST(LayerNormLevels, WholeLinesOfDoublesSayNothing) {
  Contract contract = attest::layer_norm::contract_for(policy_from_text("f64"));
  contract.arithmetic.variance = Variance::two_pass_corrected;
  contract.arithmetic.depth = Index{6};
  int undetermined = 0, wide = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Problem problem = attest::layer_norm::problem_from_text(
        "rows=1 hidden=150 dtype=f64 epsilon=0 gamma=huge values=near_constant amplitude=1048576");
    problem.seed = seed;
    Inputs inputs = materialise(problem);
    for (Index i = 0; i < problem.hidden; ++i) inputs.gamma.set(i, 0, 0, 0, largest_finite(Format::f64));
    Tensor out = make_out(problem);
    LayerNormOracle oracle(contract, problem, inputs);
    const auto judged = [&](const auto& value) {
      for (Index i = 0; i < problem.hidden; ++i) out.set(0, i, 0, 0, value(i));
      Verdict quick = oracle.judge(out, {});
      expect_equal(quick, oracle.judge_slowly(out, {}), to_text(problem));
      return quick;
    };
    undetermined += judged([&](Index i) {
                      return std::copysign(infinity, oracle.interval(0, i).enclosure.y);
                    }).reason == "undetermined";
    wide += judged([](Index) { return 1; }).reason == "wide";
  }
  EXPECT_GT(undetermined, 10);
  EXPECT_GT(wide, 10);
}

// Compares rows of few elements, which are looked at many at a time: outputs of kernels that take contracts of every
// number to their ends, as they gave them, with one element moved to an end of its interval or past it, and with NaN
// and infinities.
void compare_many_rows(std::uint64_t seed, std::uint64_t n) {
  const std::uint64_t key = extend(mix(seed + 91), n);
  constexpr const char* policies[] = {"f32", "f16", "bf16", "f64", "f16-all", "bf16-all"};
  Contract contract = n % 3 ? emulated::draw_contract(key)
                            : attest::layer_norm::contract_for(policy_from_text(policies[n / 3 % std::size(policies)]));
  Problem problem = emulated::draw_problem(contract, 2048, key);
  problem.hidden = 1 + static_cast<Index>(below(mix(key ^ 1), n % 4 ? 16 : 64));
  problem.rows = 1 + static_cast<Index>(below(mix(key ^ 2), n % 5 ? 40 : 400));
  AtTheEnds ends(contract, problem, key);
  auto& [inputs, out, sum, oracle, where] = ends;
  for (std::uint64_t moved = 0; moved < 6; ++moved) {
    const std::uint64_t dice = extend(key, moved);
    const Index r = static_cast<Index>(below(mix(dice), static_cast<std::uint64_t>(problem.rows))),
                i = static_cast<Index>(below(mix(dice ^ 1), static_cast<std::uint64_t>(problem.hidden)));
    const Enclosure e = oracle.interval(r, i).enclosure;
    const double end = dice % 2 ? e.hi : e.lo;
    double value = round_to(problem.dtype, std::isfinite(end) ? end : e.y);
    if (moved % 3 == 1) value = std::nextafter(value, dice % 2 ? infinity : -infinity);
    if (moved % 3 == 2 && std::isfinite(end))
      value = e.y + (end - e.y) * (1 + static_cast<double>(dice >> 8 & 63) / 64);
    if (moved == 5) value = dice % 3 ? std::numeric_limits<double>::quiet_NaN() : infinity;
    const double before = out.at(r, i);
    out.set(r, i, 0, 0, value);
    expect_equal(oracle.judge(out, sum), oracle.judge_slowly(out, sum), where + " moved " + std::to_string(moved));
    if (moved != 0) out.set(r, i, 0, 0, before);
  }
  if (sum.present()) {
    sum.set(problem.rows - 1, problem.hidden - 1, 0, 0, sum.at(0, 0) + 1);
    expect_equal(oracle.judge(out, sum), oracle.judge_slowly(out, sum), where + " sum");
  }
}

TEST(LayerNormLevels, ManyShortRows) {
  const std::uint64_t seed = setting("ATTEST_LAYER_NORM_SEED", 7);
  for (std::uint64_t n = 0; n < setting("ATTEST_LAYER_NORM_PROBLEMS", 1200) && !HasFailure(); ++n)
    compare_many_rows(seed, n);
}

// Rows that are narrow and hold infinities alone, which are permitted, beside rows that are wide: nothing narrow is
// judged.
TEST(LayerNormLevels, WideRowsBesideInfinities) { compare_many_rows(7, 70031); }

// Weighted merges lose more than n times what all numbers come to: rows are wide that would be narrow without them.
TEST(LayerNormLevels, RowsThatWeightedMergesMakeWide) { compare_many_rows(184, 17126); }

// Sums of whole rows are those of each element: rounded once to the stage's format, and once more to storage.
TEST(LayerNormLevels, SumsOfRowsAreThoseOfElements) {
  constexpr const char* policies[] = {"f32", "f16", "bf16", "f64", "f16-all", "bf16-all", "bf16,sum=f16"};
  constexpr attest::layer_norm::Residual residuals[] = {attest::layer_norm::Residual::like_x,
                                                        attest::layer_norm::Residual::cancelling,
                                                        attest::layer_norm::Residual::large};
  const auto& kernel = *norm_kernels::find_kernel(norm_kernels::builtin_kernels(), "explicit");
  std::int64_t sums = 0;
  for (std::uint64_t n = 0; n < 1200; ++n) {
    const Contract contract = kernel.contract(policy_from_text(policies[n % std::size(policies)]));
    Problem problem = emulated::draw_problem(contract, 600, n);
    problem.residual = residuals[n / std::size(policies) % 3];
    problem.sum_out = true;
    const Inputs inputs = materialise(problem);
    Tensor out = make_out(problem), sum = make_sum_out(problem);
    kernel.run(inputs.call(out, sum), contract);
    LayerNormOracle oracle(contract, problem, inputs);
    for (Index r = 0; r < problem.rows; ++r)
      for (Index i = 0; i < problem.hidden; ++i) sum.set(r, i, 0, 0, oracle.sums(r, i).front());
    EXPECT_FALSE(oracle.judge(out, sum).evidence.has_value()) << to_text(problem);
    if (problem.elements() == 0 || !std::isfinite(sum.at(0, 0))) continue;
    const double moved = std::nextafter(static_cast<float>(sum.at(0, 0)), std::numeric_limits<float>::infinity());
    sum.set(0, 0, 0, 0, round_toward(problem.dtype, moved, true));
    const Verdict verdict = oracle.judge(out, sum);
    EXPECT_TRUE(verdict.evidence && verdict.evidence->tensor == "sum_out") << to_text(problem);
    sums += problem.elements();
  }
  EXPECT_GT(sums, 10000);
}

}  // namespace
}  // namespace attest::oracle::layer_norm
