// What the statistical tiers cost on long rows, and that cheaper levels say what the whole of s says.
#include <algorithm>
#include <cmath>
#include <ctime>

#include <gtest/gtest.h>

#include "kernels/emulated/contracts.hpp"
#include "kernels/emulated/emulator.hpp"
#include "kernels/registry.hpp"
#include "oracle/attention.hpp"
#include "tests/oracle/draw.hpp"

namespace attest {
namespace {

using oracle::AttentionOracle;
using oracle::Statistics;

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class LongRows : public ::testing::TestWithParam<std::size_t> {
 protected:
  const NamedPolicy& named = named_policies()[GetParam()];
};

// second_look() says of every limit what slow_t() says, and the same number above it.
TEST_P(LongRows, SecondLookSaysWhatTheWholeOfSSays) {
  int bounded = 0, above = 0, looked = 0;
  for (std::uint64_t n = 0; n < 300; ++n) {
    const std::uint64_t number = n * 31 + GetParam();
    const Contract contract = emulator::draw_contract(named.policy, static_cast<int>(n % emulator::contract_variants));
    if (!oracle::statistical_refusal(contract).empty()) continue;
    Problem problem = testing::draw_problem(named.policy[Stage::storage], number * 131, 400);
    problem.values = static_cast<Values>(n % static_cast<std::uint64_t>(values_count));
    problem.b = 1;
    const Inputs inputs = materialise(problem);
    Tensor out = make_out(problem), lse = make_lse(problem);
    emulator::Variant variant = emulator::draw_variant(contract, problem, number);
    if (n % 3 == 0) variant.defect = emulator::Defect::exp_off;
    emulator::run(inputs, contract, variant, out, lse);
    const double t = AttentionOracle(contract, problem, inputs).slow_t(out);
    if (t < 1e-6) continue;  // nothing but the references' own rounding
    for (const double times : {0.5, 0.999, 1.001, 1.5, 3.0}) {
      const double limit = times * t, second = AttentionOracle(contract, problem, inputs).second_look(out, limit);
      if (t > limit)
        EXPECT_EQ(second, t) << to_text(problem);
      else
        EXPECT_TRUE(second >= t * (1 - 1e-9) && second <= limit) << second << ' ' << t << ' ' << to_text(problem);
      ++looked;
      bounded += second > t;
      above += t > limit;
    }
  }
  const int least = named.policy[Stage::pv] == Format::f64 ? -1 : looked / 20;
  EXPECT_GT(bounded, least) << "hardly anything is told by a bound";
  EXPECT_GT(above, looked / 20);
}

INSTANTIATE_TEST_SUITE_P(AllPolicies, LongRows, ::testing::Range<std::size_t>(0, 9));

// Few rows of many keys: the whole of s takes a hundred times as long as the rest of the verdict. Both of what asks for it cost
// no more than some further verdicts: elements past 4 s_in (equal values), and T above a quantile.
TEST(FewLongRows, CostNoMoreThanSomeVerdicts) {
  for (const char* values : {"normal", "constant:1", "integers"}) {
    const Problem problem = problem_from_text(
        std::string("op=attention b=1 hq=1 hkv=1 lq=4 lk=20000 d=64 dv=64 dtype=f32 seed=1 values=") + values);
    const auto* kernel = kernels::find_kernel(kernels::builtin_kernels(), "explicit");
    ASSERT_NE(kernel, nullptr);
    const Contract contract = kernel->contract(policy_from_text("f32"));
    const Inputs inputs = materialise(problem);
    Tensor out = make_out(problem), lse = make_lse(problem);
    kernel->run(inputs.call(out, lse), contract);
    const auto cost_of = [&](auto&& ask) {
      double least = 1e9;
      for (int n = 0; n < 3; ++n) {
        const double before = processor_seconds();
        ask();
        least = std::min(least, processor_seconds() - before);
      }
      return least;
    };
    const double verdict = cost_of([&] { (void)AttentionOracle(contract, problem, inputs).judge(out, lse); });
    const double all = cost_of([&] {
      Statistics statistics;
      AttentionOracle oracle(contract, problem, inputs);
      EXPECT_EQ(oracle.judge(out, lse, &statistics).kind, VerdictKind::pass);
      EXPECT_LE(statistics.largest_lambda, Statistics::near_lambda);
      EXPECT_LE(oracle.second_look(out, 1), 1);
    });
    EXPECT_LT(all, 16 * verdict) << values;
  }
}

}  // namespace
}  // namespace attest
