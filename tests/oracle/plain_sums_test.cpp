// Sums whose additions round to nearest lose no more than n u of the sum of magnitudes, however many terms they have
// (docs/bounds.md, "Sums that round to nearest"): additions whose roundings all err to one side, in many orders, are
// within. The tests also hold the interval of an undeclared contract on long rows in 16 bits.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "kernels/emulated/contracts.hpp"
#include "oracle/outcome.hpp"
#include "tests/oracle/trial.hpp"

namespace attest {
namespace {

using testing::Trial;

// The order in which a sum comes together.
enum class Order { chain, greedy, pairs, random_tree, tiles, chain_of_chains };
constexpr Order orders[] = {Order::chain,       Order::greedy, Order::pairs,
                            Order::random_tree, Order::tiles,  Order::chain_of_chains};

struct Dice {
  std::uint64_t key;
  double operator()() { return static_cast<double>((key = mix(key + 1)) >> 11) * 0x1p-53; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(attest::below(key = mix(key + 1), n)); }
};

struct Adder {
  Format format;
  bool twice;  // by way of f32
  double operator()(double a, double b) const { return round_to(format, twice ? round_to(Format::f32, a + b) : a + b); }
};

// The terms as they are: what adds rounds no term by itself.
double sum_of(std::vector<double> terms, Order order, const Adder& add, double side, Dice& dice) {
  const auto chain = [&](const std::vector<double>& of) {
    double total = 0;
    for (const double x : of) total = add(total, x);
    return total;
  };
  switch (order) {
    case Order::chain:
      return chain(terms);
    case Order::greedy: {  // the next of eight that errs furthest to one side
      double total = 0;
      while (!terms.empty()) {
        std::size_t best = 0;
        double most = -INFINITY;
        for (std::size_t i = 0; i < std::min<std::size_t>(8, terms.size()); ++i)
          if (const double error = side * (add(total, terms[i]) - (total + terms[i])); error > most)
            most = error, best = i;
        total = add(total, terms[best]);
        terms[best] = terms.back();
        terms.pop_back();
      }
      return total;
    }
    case Order::pairs:
      while (terms.size() > 1) {
        std::vector<double> half;
        for (std::size_t i = 0; i + 1 < terms.size(); i += 2) half.push_back(add(terms[i], terms[i + 1]));
        if (terms.size() % 2) half.push_back(terms.back());
        terms = std::move(half);
      }
      return terms[0];
    case Order::random_tree:
      while (terms.size() > 1) {
        const std::size_t i = dice.below(terms.size());
        std::swap(terms[i], terms.back());
        const double a = terms.back();
        terms.pop_back();
        double& b = terms[dice.below(terms.size())];
        b = add(a, b);
      }
      return terms[0];
    case Order::tiles: {  // in f32, rounded with the total behind each
      double total = 0;
      for (std::size_t i = 0; i < terms.size();) {
        double tile = dice.below(2) ? total : 0;
        const bool begins = tile != 0;
        for (std::size_t end = std::min(terms.size(), i + 16); i < end; ++i)
          tile = round_to(Format::f32, tile + terms[i]);
        total = begins ? round_to(add.format, tile) : add(total, tile);
      }
      return total;
    }
    case Order::chain_of_chains: {
      std::vector<double> parts;
      const auto size = static_cast<std::size_t>(std::sqrt(static_cast<double>(terms.size()))) + 1;
      for (std::size_t i = 0; i < terms.size(); i += size)
        parts.push_back(chain({terms.begin() + static_cast<std::ptrdiff_t>(i),
                               terms.begin() + static_cast<std::ptrdiff_t>(std::min(terms.size(), i + size))}));
      return chain(parts);
    }
  }
  return 0;
}

// Terms that make roundings err to one side: each a little more, or less, than half an ulp of the running sum.
std::vector<double> terms_of(std::size_t n, int kind, double side, Format format, bool numbers, Dice& dice) {
  std::vector<double> terms;
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double x = 1;
    const double half_ulp = total > 0 ? std::ldexp(unit_roundoff(format), std::ilogb(total)) : 1;
    if (kind == 1) x = dice();
    if (kind == 2) x = dice.below(8) == 0 ? 1 + dice() : half_ulp * (1 + side * 0.01 + 0.02 * dice());
    if (kind == 3) x = half_ulp * (1 + 2 * static_cast<double>(dice.below(3))) * (1 + side * 0.01);
    if (kind == 4) x = std::ldexp(1 + dice(), -static_cast<int>(dice.below(20)));
    if (kind == 5) x = (dice() - 0.5) * (1 + static_cast<double>(i));  // numbers of both signs
    if (kind == 6) x = half_ulp * (i % 2 ? 1.01 : -0.99);
    if (numbers) x = round_to(format, x);
    terms.push_back(x);
    total = round_to(format, total + x);
  }
  return terms;
}

TEST(PlainSums, LoseNoMoreThanRoundingsTimesMagnitudes) {
  double nearest_all = 0, nearest_low = 0, nearest_high = 0;
  std::uint64_t seed = 1;
  for (const Format format : {Format::bf16, Format::f16})
    for (const std::size_t n : {2U, 3U, 9U, 64U, 257U, 1000U, 4096U, 10'000U})
      for (int kind = 0; kind < 7; ++kind)
        for (const double side : {-1.0, 1.0})
          for (const bool numbers : {true, false})
            for (const bool twice : {false, true})
              for (const Order order : orders) {
                Dice dice{seed++};
                const std::vector<double> terms = terms_of(n, kind, side, format, numbers, dice);
                const Adder add{format, twice};
                double exact = 0, magnitude = 0;
                for (const double x : terms) exact += x, magnitude += std::fabs(x);
                const double got = sum_of(terms, order, add, side, dice);
                if (!std::isfinite(got) || !std::isfinite(magnitude)) continue;
                const double u = unit_roundoff(format), count = static_cast<double>(n), c = count * u * u;
                // Terms that are no numbers are products that a fused operation, or f32, rounds with the sum.
                const double permitted = (numbers && !twice ? count - 1 : count) * u * (1 + u);
                ASSERT_LE(std::fabs(got - exact), permitted * magnitude)
                    << n << ' ' << kind << ' ' << side << ' ' << numbers << twice << ' ' << static_cast<int>(order);
                nearest_all = std::max(nearest_all, std::fabs(got - exact) / (permitted * magnitude));
                if (exact != magnitude) continue;
                const double low = exact / (1 + permitted),
                             high = exact * 2 * std::pow(std::sqrt(c) + std::sqrt(1 + c), 2) * (1 + 2 * u);
                ASSERT_GE(got, low) << n << ' ' << kind << ' ' << static_cast<int>(order);
                ASSERT_LE(got, high) << n << ' ' << kind << ' ' << static_cast<int>(order);
                nearest_low = std::max(nearest_low, low / got);
                if (n > 1000) nearest_high = std::max(nearest_high, got / high);
              }
  std::printf("of n u sum|x| %.3f was lost, a sum came to %.3f of the least and %.3f of the most that is permitted\n",
              nearest_all, nearest_low, nearest_high);
  EXPECT_GT(nearest_all, 0.5);
  EXPECT_GT(nearest_low, 0.9);
  EXPECT_GT(nearest_high, 0.4);
}

// All scores are 0, so that out is the mean of v. Sums to nearest in the format of the policy, each in its own order.
TEST(PlainSums, KernelsThatTakeThemToTheirEndAreNotBlamed) {
  int problems = 0, vacuous = 0;
  double least = 1, most = 1;
  for (const char* policy : {"bf16-all", "f16-all"})
    for (const Index keys : {1, 2, 17, 63, 64, 200, 513, 1025, 4096, 10'000})
      for (int kind = 0; kind < 7; ++kind)
        for (const double side : {-1.0, 1.0})
          for (const Order of_values : orders) {
            const Policy formats = policy_from_text(policy);
            const Format format = formats[Stage::storage];
            Dice dice{static_cast<std::uint64_t>(++problems)};
            Problem problem = problem_from_text("lq=1 d=1 dv=1 values=constant:1 q_form=zero");
            problem.dtype = format;
            problem.lk = keys;
            std::vector<double> values = terms_of(static_cast<std::size_t>(keys), kind, side, format, true, dice);
            const Adder add{format, false};
            const std::vector<double> ones(values.size(), 1.0);
            const Order of_weights = orders[dice.below(6)];
            const double sum = sum_of(ones, of_weights, add, side, dice);
            const double total = sum_of(values, of_values, add, side, dice);
            if (!std::isfinite(total)) continue;
            Trial trial(problem, contract_for(formats), [&](Inputs& in) {
              for (Index j = 0; j < keys; ++j) in.v.set(0, 0, j, 0, values[static_cast<std::size_t>(j)]);
            });
            trial.out.set(0, 0, 0, 0, round_to(format, total / sum));
            const Verdict quick = trial.judge(), slow = trial.judge_slowly();
            ASSERT_NE(slow.kind, VerdictKind::fail) << policy << ' ' << keys << ' ' << kind << ' ' << side;
            ASSERT_EQ(quick.kind, slow.kind) << policy << ' ' << keys << ' ' << kind << ' ' << side;
            vacuous += slow.kind == VerdictKind::vacuous;
            double exact = 0;
            for (const double x : values) exact += x;
            if (kind > 4) continue;
            const double ratio = trial.out.at(0, 0, 0, 0) / (exact / static_cast<double>(keys));
            least = std::min(least, ratio);
            most = std::max(most, ratio);
          }
  std::printf("%d problems, %d vacuous; out was %.4f to %.2f times what it should be\n", problems, vacuous, least,
              most);
  EXPECT_LT(least, 0.1);
  EXPECT_GT(most, 5);
}

// The limits of an undeclared kernel in 16 bits, on a row of 4,096 keys.
TEST(PlainSums, AHundredthOfTheRightValueIsFound) {
  for (const char* policy : {"bf16-all", "f16-all"})
    for (const double value : {1.0, -3.0}) {
      Problem problem = problem_from_text("lq=1 lk=4096 d=64 dv=8 values=constant:1 q_form=zero");
      const Policy formats = policy_from_text(policy);
      problem.dtype = formats[Stage::storage];
      Trial trial(problem, contract_for(formats), [value](Inputs& in) {
        for (Index j = 0; j < 4096; ++j)
          for (Index c = 0; c < 8; ++c) in.v.set(0, 0, j, c, value);
      });
      const auto gives = [&](double share) {
        for (Index c = 0; c < 8; ++c) trial.out.set(0, 0, 0, c, round_to(problem.dtype, value * share));
        const Verdict quick = trial.judge(), slow = trial.judge_slowly();
        EXPECT_EQ(quick.kind, slow.kind) << policy << ' ' << share;
        return slow.kind;
      };
      EXPECT_EQ(gives(1.0 / 128), VerdictKind::fail) << policy << ' ' << value;
      EXPECT_EQ(gives(-1.0 / 128), VerdictKind::fail) << policy << ' ' << value;
      EXPECT_EQ(gives(0), VerdictKind::fail) << policy << ' ' << value;
      // A chain of bf16 stays where half an ulp of it is more than the next term: at 256 of 4,096. Its interval says
      // next to nothing.
      EXPECT_EQ(gives(problem.dtype == Format::bf16 ? 1.0 / 16 : 0.5), VerdictKind::vacuous) << policy << ' ' << value;
      EXPECT_NE(gives(1), VerdictKind::fail);
    }
}

// Near the ends that values of one sign have where sums are coarse, levels and full formulas say the same.
TEST(PlainSums, LevelsKnowTheEndsOfValuesOfOneSign) {
  int failed = 0, judged = 0, positive = 0;
  for (std::uint64_t n = 0; n < 300; ++n) {
    Dice dice{n};
    const Policy formats = policy_from_text(n % 3 ? "bf16-all" : "f16-all");
    Problem problem = problem_from_text("lq=2 d=4 dv=3 values=normal");
    problem.dtype = formats[Stage::storage];
    problem.lk = static_cast<Index>(60 + dice.below(n % 3 ? 400 : 900));
    problem.seed = n;
    const double sign = n % 2 ? 1 : -1, amplitude = std::ldexp(1.0, -static_cast<int>(dice.below(6))), spread = dice();
    Contract contract = contract_for(formats);
    if (n % 5 < 3) contract.arithmetic.kv_tile_min = 64;
    if (n % 7 < 3) contract.arithmetic.lse_merge = LseMerge::none;
    Trial trial(problem, contract, [&](Inputs& in) {
      for (Index j = 0; j < problem.lk; ++j) {
        for (Index c = 0; c < 4; ++c) in.k.set(0, 0, j, c, round_to(problem.dtype, amplitude * in.k.at(0, 0, j, c)));
        for (Index c = 0; c < 3; ++c)
          in.v.set(0, 0, j, c, round_to(problem.dtype, sign * (1 - spread + spread * dice())));
      }
    });
    oracle::AttentionOracle judge(contract, problem, trial.inputs);
    for (int shot = 0; shot < 24; ++shot) {
      for (Index i = 0; i < 2; ++i)
        for (Index c = 0; c < 3; ++c) {
          const oracle::Enclosure e = judge.out_enclosure(0, 0, i, c);
          const double end = shot % 4 == 0 ? e.lo : shot % 4 == 1 ? e.hi : e.y;
          positive += sign > 0 ? e.lo > 0 : e.hi < 0;
          trial.out.set(
              0, 0, i, c,
              round_to(problem.dtype, end * (shot % 4 == 3 ? std::exp(3 * (dice() - 1)) : 0.97 + 0.06 * dice())));
        }
      const Verdict quick = trial.judge(), slow = trial.judge_slowly();
      ASSERT_EQ(quick.kind, slow.kind) << n << ' ' << to_text(problem);
      failed += slow.kind == VerdictKind::fail;
      ++judged;
    }
  }
  std::printf("%d of %d results fail\n", failed, judged);
  EXPECT_GT(failed, judged / 20);
  EXPECT_LT(failed, judged * 19 / 20);
  EXPECT_GT(positive, judged);
}

TEST(PlainSums, AnIntervalWiderThanItsValuesIsWide) {
  oracle::Enclosure e;
  const auto wide = [&e](double lo, double hi, double hull_lo, double hull_hi) {
    e.lo = lo, e.hi = hi, e.hull_lo = hull_lo, e.hull_hi = hull_hi;
    return oracle::is_wide(e);
  };
  EXPECT_TRUE(wide(-1, 1, -1, 1));
  EXPECT_FALSE(wide(-0.4, 0.5, -1, 1));
  EXPECT_TRUE(wide(-0.5, 0.6, -1, 1));
  EXPECT_TRUE(wide(0.25, 3, 2, 2));  // constant values
  EXPECT_FALSE(wide(1, 3, 2, 2));
  EXPECT_FALSE(wide(-1e-40, 1e-40, 0, 0));  // only zeros: nothing else passes
  EXPECT_FALSE(wide(-3, 9, -testing::infinity, testing::infinity));
}

}  // namespace
}  // namespace attest
