#include "engine/shrink/shrink.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.hpp"
#include "core/inputs.hpp"
#include "core/supports.hpp"

namespace attest::engine {
namespace {

using attest::Problem;
using attest::problem_from_text;
using attest::Supports;

// A subject reduced to what shrinking sees: which problems fail.
Shrunk shrink_where(const Problem& problem, const std::function<bool(const Problem&)>& fails,
                    const ShrinkBudget& budget = {}, const Supports& supports = {}) {
  Verdict verdict;
  verdict.kind = VerdictKind::fail;
  const Try attempt = [&](const ops::Problem& any) {
    const Problem& candidate = any.as<Problem>();
    validate(candidate);
    return Trialled{fails(candidate) ? std::optional(verdict) : std::nullopt, 1};
  };
  EXPECT_TRUE(fails(problem));
  return shrink(problem, verdict, attempt, {supports, {Format::f32, Format::f16}, {}}, budget);
}

// Many samples are asked in one call as far as memory goes: a problem of no queries has no work, and may have a million
// keys.
TEST(ManySamples, OfAnEmptyProblemFitIntoMemory) {
  const auto sampled = [](const char* text) {
    const ops::Problem problem(problem_from_text(text));
    return problem.op().sampled(problem).as<attest::Problem>();
  };
  EXPECT_EQ(sampled("b=1 hq=1 hkv=1 lq=0 lk=976000 d=64 dv=1 dtype=f32").b, 1);
  EXPECT_EQ(sampled("b=1 hq=1 hkv=1 lq=0 lk=1 d=1 dv=1 dtype=f32").b, 64);
  EXPECT_EQ(sampled("b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32").b, 64);
}

TEST(Shrink, WhatIsTooLargeToBeAskedShowsNoFailure) {
  const Problem problem =
      problem_from_text("b=1 hq=1 hkv=1 lq=4 lk=9 d=4 dv=4 dtype=f32 softcap=0x1p+0 values=normal:1");
  int refused = 0;
  const Shrunk shrunk = shrink_where(problem, [&](const Problem& candidate) {
    if (candidate.lq < 4 && ++refused > 0) throw TooLarge("a tensor of this problem spans 15255 MiB");
    return candidate.lk >= 5;
  });
  EXPECT_GT(refused, 0);
  EXPECT_EQ(shrunk.minimal.as<Problem>().lk, 5);
  EXPECT_EQ(shrunk.minimal.as<Problem>().lq, 4);
}

Problem rich_problem() {
  return problem_from_text(
      "op=attention b=5 hq=12 hkv=4 lq=33 lk=130 d=48 dv=17 dtype=f16 scale=0x1.9p-3 softcap=0x1.4p+4 causal=1 "
      "align=bottom_right window_left=9 keep=blocks keep_axes=13 bias=padding bias_type=f32 mask_layout=padded_rows "
      "lengths=ragged q_layout=bshd v_layout=spaced out_layout=transposed lse=f64 threads=4 values=outlier:2.5 "
      "seed=991");
}

TEST(Shrink, WhatAlwaysFailsEndsAtTheSimplestProblemInFewCalls) {
  const Shrunk shrunk = shrink_where(rich_problem(), [](const Problem&) { return true; });
  EXPECT_EQ(to_text(shrunk.minimal),
            "op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 values=constant:1 q_form=zero k_form=zero "
            "v_form=zero seed=0");
  EXPECT_TRUE(shrunk.complete);
  EXPECT_TRUE(shrunk.neighbours.empty());
  EXPECT_LE(shrunk.calls, 20);
}

TEST(Shrink, FormsGoBackToTheFirstUnlessTheyMatter) {
  Supports supports;
  supports.forms = {{"mask", {"full", "1d"}}, {"past", {"none", "any"}}, {"scale", {"input", "constant"}}};
  Problem problem = rich_problem();
  problem.forms = {{"mask", "1d"}, {"past", "any"}, {"scale", "constant"}};
  const auto said = [](const Problem& p) { return forms_json(p.forms); };
  const auto with_past = [&](const Problem& p) { return said(p).find("past") != std::string::npos; };
  const Shrunk shrunk = shrink_where(problem, with_past, {}, supports);
  EXPECT_EQ(said(shrunk.minimal.as<Problem>()), R"({"past":"any"})");
  EXPECT_TRUE(shrunk.complete);
  const auto long_rows = [](const Problem& p) { return p.lk > 3; };
  EXPECT_EQ(said(shrink_where(problem, long_rows, {}, supports).minimal.as<Problem>()), "");
}

TEST(Shrink, HeadsWithoutQueriesShrinkToo) {
  const Problem problem = problem_from_text("hq=0 hkv=6 lq=40 lk=7");
  EXPECT_LE(shrink_where(problem, [](const Problem&) { return true; }).minimal.as<Problem>().hkv, 1);
}

TEST(Shrink, OneDimensionEndsAtItsThreshold) {
  for (const Index threshold : {2, 3, 7, 64, 100, 130}) {
    const Shrunk shrunk = shrink_where(rich_problem(), [&](const Problem& p) { return p.lk >= threshold; });
    EXPECT_EQ(shrunk.minimal.as<Problem>().lk, threshold);
    EXPECT_EQ(shrunk.minimal.as<Problem>().multiply_adds(), 2 * threshold);
    EXPECT_LE(shrunk.calls, 80) << threshold;
  }
}

TEST(Shrink, ConjunctionsOfFieldsSurvive) {
  const Shrunk shrunk = shrink_where(rich_problem(), [](const Problem& p) {
    return p.b >= 2 && p.causal && p.lq > 1 && p.lq != p.lk && p.q_layout == Layout::bshd;
  });
  EXPECT_EQ(shrunk.minimal.as<Problem>().b, 2);
  EXPECT_EQ(shrunk.minimal.as<Problem>().lq, 2);
  EXPECT_EQ(shrunk.minimal.as<Problem>().lk, 1);
  EXPECT_TRUE(shrunk.minimal.as<Problem>().causal);
  EXPECT_EQ(shrunk.minimal.as<Problem>().q_layout, Layout::bshd);
  EXPECT_EQ(shrunk.minimal.as<Problem>().keep, Keep::none);
  EXPECT_EQ(shrunk.minimal.as<Problem>().align, Align::top_left);
  EXPECT_LE(shrunk.calls, 130);
}

TEST(Shrink, GroupedHeadsShrinkTogether) {
  const Shrunk shrunk = shrink_where(rich_problem(), [](const Problem& p) { return p.hkv >= 2 && p.hq > p.hkv; });
  EXPECT_EQ(shrunk.minimal.as<Problem>().hkv, 2);
  EXPECT_EQ(shrunk.minimal.as<Problem>().hq, 4);
}

TEST(Shrink, TheWitnessKeepsItsCoordinates) {
  // Only sample 3 fails, and only through head 7, as it would if one value there were special.
  const auto fails = [](const Problem& p) {
    return p.b0 <= 3 && 3 < p.b0 + p.b && p.hq0 <= 7 && 7 < p.hq0 + p.hq && p.seed == 991;
  };
  const auto verdict = [](const Problem& p) {
    Evidence witness;
    witness.tensor = "out";
    witness.index = {3 - p.b0, 7 - p.hq0, p.lq - 1, 0};
    return Verdict::fail(witness);
  };
  const Try attempt = [&](const ops::Problem& any) {
    const Problem& p = any.as<Problem>();
    return Trialled{fails(p) ? std::optional(verdict(p)) : std::nullopt, 1};
  };
  const Problem problem = rich_problem();
  const Problem minimal = shrink(problem, verdict(problem), attempt, {{}, {Format::f32}, {}}, {}).minimal.as<Problem>();
  EXPECT_EQ(minimal.b0, 3);
  EXPECT_EQ(minimal.b, 1);
  EXPECT_EQ(minimal.hq0, 7);
  EXPECT_EQ(minimal.hq, 1);
}

TEST(Shrink, EveryNeighbourOfTheMinimumPasses) {
  const auto fails = [](const Problem& p) {
    return p.lk % 16 == 3 && p.d >= 5 && std::fabs(p.effective_scale()) < 0.3;
  };
  Problem problem = rich_problem();
  problem.lk = 131;
  const Shrunk shrunk = shrink_where(problem, fails);
  EXPECT_TRUE(shrunk.complete);
  const ShrinkLimits limits{{}, {Format::f32, Format::f16}, {}};
  const auto around = neighbours(shrunk.minimal, limits);
  for (const Candidate& neighbour : around) EXPECT_FALSE(fails(neighbour.problem.as<Problem>())) << neighbour.change;
  EXPECT_EQ(shrunk.neighbours.size(), around.size());
}

TEST(Shrink, TheBudgetEndsItAndItSaysSo) {
  const Shrunk shrunk = shrink_where(rich_problem(), [](const Problem& p) { return p.lk > 77 && p.causal; }, {5, {}});
  EXPECT_LE(shrunk.calls, 5);
  EXPECT_FALSE(shrunk.complete);
}

TEST(Shrink, NothingIsTriedTwice) {
  std::set<std::string> tried;
  Verdict verdict;
  verdict.kind = VerdictKind::fail;
  const Try attempt = [&](const ops::Problem& any) {
    const Problem& candidate = any.as<Problem>();
    EXPECT_TRUE(tried.insert(to_text(candidate)).second) << to_text(candidate);
    return Trialled{candidate.dv >= 3 ? std::optional(verdict) : std::nullopt, 1};
  };
  EXPECT_EQ(shrink(rich_problem(), verdict, attempt, {{}, {Format::f32, Format::f16}, {}}, {}).minimal.as<Problem>().dv,
            3);
}

TEST(Shrink, LimitsOfTheSubjectHold) {
  ShrinkLimits limits;
  limits.supports.attention.d = {8, 256, 8};
  limits.supports.attention.dv_equals_d = true;
  limits.supports.attention.gqa = false;
  limits.dtypes = {Format::f16};
  limits.admissible = [](const ops::Problem& p) { return p.as<Problem>().lq >= 3; };
  Problem problem = rich_problem();
  problem.hkv = problem.hq;
  problem.dv = problem.d;
  Verdict verdict;
  verdict.kind = VerdictKind::fail;
  const Try attempt = [&](const ops::Problem& any) {
    const Problem& p = any.as<Problem>();
    EXPECT_EQ(p.d % 8, 0);
    EXPECT_EQ(p.d, p.dv);
    EXPECT_EQ(p.hq, p.hkv);
    EXPECT_EQ(p.dtype, Format::f16);
    EXPECT_GE(p.lq, 3);
    return Trialled{verdict, 1};
  };
  const Problem minimal = shrink(problem, verdict, attempt, limits, {}).minimal.as<Problem>();
  EXPECT_EQ(minimal.d, 8);
  EXPECT_EQ(minimal.lq, 3);
}

TEST(Shrink, EditsAreDroppedToThoseThatMatter) {
  Problem problem =
      problem_from_text("op=attention b=1 hq=1 hkv=1 lq=2 lk=3 d=4 dv=2 dtype=f32 values=normal:1 seed=5");
  for (Index i = 0; i < 4; ++i) problem.edits.push_back({Edit::Tensor::q, {0, 0, 1, i}, 2.5});
  const Shrunk shrunk = shrink_where(problem, [](const Problem& p) {
    return std::ranges::any_of(p.edits, [](const Edit& edit) { return edit.index[3] == 2; });
  });
  ASSERT_EQ(shrunk.minimal.as<Problem>().edits.size(), 1u);
  EXPECT_EQ(shrunk.minimal.as<Problem>().edits[0].index[3], 2);
}

// The number of elements of k that are neither 0 nor 1.
int odd_keys(const Problem& p) {
  const Inputs inputs = materialise(p);
  int count = 0;
  for (Index j = 0; j < p.lk; ++j)
    for (Index c = 0; c < p.d; ++c) count += inputs.k.at(0, 0, j, c) != 0 && inputs.k.at(0, 0, j, c) != 1;
  return count;
}

TEST(Shrink, ElementsThatDoNotMatterBecomeZero) {
  const Shrunk shrunk =
      shrink_where(problem_from_text("op=attention b=1 hq=1 hkv=1 lq=1 lk=4 d=3 dv=1 dtype=f32 values=normal:1 seed=5"),
                   [](const Problem& p) {
                     return p.lk >= 2 && p.d >= 2 && materialise(p).k.at(0, 0, 1, 1) != materialise(p).k.at(0, 0, 0, 0);
                   });
  EXPECT_EQ(shrunk.minimal.as<Problem>().lk, 2);
  EXPECT_EQ(shrunk.minimal.as<Problem>().d, 2);
  EXPECT_EQ(odd_keys(shrunk.minimal.as<Problem>()), 0) << to_text(shrunk.minimal);
  // An element that was set to zero stays zero: putting it back is no neighbour.
  for (const Candidate& neighbour : neighbours(shrunk.minimal, {{}, {Format::f32}, {}}))
    EXPECT_EQ(neighbour.change.find("removed"), std::string::npos) << neighbour.change;
}

TEST(Shrink, EverySizeEnds) {
  for (Index n = 0; n <= 20; ++n) {
    Problem problem;
    problem.lk = n;
    problem.d = std::max<Index>(n, 1);
    for (Index least = 0; least <= n; ++least) {
      ShrinkLimits limits;
      limits.supports.attention.lk.min = 0;
      Verdict verdict;
      verdict.kind = VerdictKind::fail;
      const Try attempt = [&](const ops::Problem& any) {
        const Problem& p = any.as<Problem>();
        return Trialled{p.lk >= least ? std::optional(verdict) : std::nullopt, 1};
      };
      const Index minimum = shrink(problem, verdict, attempt, limits, {}).minimal.as<Problem>().lk;
      EXPECT_EQ(minimum, std::max<Index>(least, 1)) << n << " " << least;
    }
  }
}

// The fewest multiply-adds with which any problem fails, of dimensions up to 8 and with the options that the tests
// below ask for in all combinations.
Index least_by_enumeration(const std::function<bool(const Problem&)>& fails) {
  Index least = INT64_MAX;
  const auto upto8 = [](auto&& visit) {
    for (Index n = 1; n <= 8; ++n) visit(n);
  };
  const auto try_options = [&](Problem p) {
    for (const bool causal : {false, true})
      for (const Values values : {Values::constant, Values::outlier})
        for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u}) {
          p.causal = causal;
          p.values = values;
          p.seed = seed;
          if (p.multiply_adds() < least && fails(p)) least = p.multiply_adds();
        }
  };
  upto8([&](Index b) {
    upto8([&](Index group) {
      upto8([&](Index lq) {
        upto8([&](Index lk) {
          upto8([&](Index d) {
            Problem p;
            p.b = b, p.hq = group, p.lq = lq, p.lk = lk, p.d = d;
            if (p.multiply_adds() < least) try_options(p);
          });
        });
      });
    });
  });
  return least;
}

std::vector<Problem> starting_problems() {
  std::vector<Problem> starts;
  for (const char* text :
       {"b=5 hq=12 hkv=4 lq=33 lk=130 d=48 dv=17 dtype=f16 scale=0x1.9p-3 softcap=0x1.4p+4 causal=1 align=bottom_right "
        "window_left=9 keep=blocks bias=padding lengths=ragged q_layout=bshd lse=f64 threads=4 values=outlier:2.5",
        "b=1 hq=8 hkv=2 lq=1 lk=4096 d=64 dv=64 dtype=f32 causal=1 align=bottom_right values=outlier:1",
        "b=3 hq=6 hkv=3 lq=70 lk=9 d=16 dv=8 dtype=bf16 causal=1 bias=alibi k_layout=slice values=outlier:4",
        "b=16 hq=2 hkv=1 lq=12 lk=12 d=8 dv=8 dtype=f32 causal=1 keep=half out_layout=bshd values=outlier:2"})
    for (const std::uint64_t seed : {1u, 17u, 991u, 123456789u}) {
      starts.push_back(problem_from_text(text));
      starts.back().seed = seed;
    }
  return starts;
}

bool has_outlier(const Problem& p) {
  const Inputs inputs = materialise(p);
  for (Index b = 0; b < p.b; ++b)
    for (Index h = 0; h < p.hkv; ++h)
      for (Index j = 0; j < p.lk; ++j)
        for (Index c = 0; c < p.d; ++c)
          if (std::fabs(inputs.k.at(b, h, j, c)) > 12) return true;
  return false;
}

TEST(Shrink, FourConditionsEndAtTheirMinimum) {
  const auto fails = [](const Problem& p) { return p.lk >= 7 && p.causal && p.hq > p.hkv && has_outlier(p); };
  const Index least = least_by_enumeration(fails);
  EXPECT_EQ(least, 28);  // two heads of one group, one query, seven keys
  int tried = 0;
  for (const Problem& start : starting_problems()) {
    if (!fails(start)) continue;
    ++tried;
    const Shrunk shrunk = shrink_where(start, fails);
    EXPECT_TRUE(shrunk.complete);
    EXPECT_EQ(shrunk.minimal.as<Problem>().multiply_adds(), least) << to_text(start) << "\n" << to_text(shrunk.minimal);
    for (const Candidate& neighbour : neighbours(shrunk.minimal, {{}, {Format::f32, Format::f16}, {}}))
      EXPECT_FALSE(fails(neighbour.problem.as<Problem>())) << neighbour.change;
  }
  EXPECT_GE(tried, 12);
}

TEST(Shrink, TiedDimensionsEndAtTheirMinimum) {
  struct Tie {
    std::string_view name;
    std::function<bool(const Problem&)> fails;
    Index times = 1;  // the minimum
  };
  const Tie ties[] = {{"a difference", [](const Problem& p) { return p.lk - p.lq == 3; }},
                      {"a residue", [](const Problem& p) { return p.lk % 8 == 5 && p.hq / p.hkv >= 2; }},
                      {"equal widths", [](const Problem& p) { return p.d == p.dv && p.lk > p.lq; }},
                      // One factor would have to grow on the way from 3 x 3 to 1 x 7.
                      {"a product", [](const Problem& p) { return p.b * p.lq >= 7 && p.causal; }, 2}};
  for (const Tie& tie : ties) {
    const Index least = least_by_enumeration(tie.fails);
    int tried = 0;
    for (Problem start : starting_problems()) {
      start.lk = tie.name == "a residue" ? 133 : start.lq + 3;
      start.dv = start.d;
      if (!tie.fails(start)) continue;
      ++tried;
      EXPECT_LE(shrink_where(start, tie.fails).minimal.as<Problem>().multiply_adds(), tie.times * least)
          << tie.name << " " << to_text(start);
    }
    EXPECT_GE(tried, 12) << tie.name;
  }
}

// An option that the failing problem lacked is not brought in, whatever fails with it.
TEST(Shrink, NoOptionComesIn) {
  const Problem start = problem_from_text(
      "b=3 hq=4 hkv=4 lq=9 lk=40 d=16 dv=8 dtype=f16 causal=1 q_layout=bshd bias=alibi "
      "lengths=ragged values=normal:1 seed=3");
  const auto fails = [](const Problem& p) {
    return p.lk >= 5 || p.lse != LseOutput::none || p.window_left >= 0 || p.window_right >= 0 || p.keep != Keep::none ||
           p.scale || p.softcap != 0 || p.bias == Bias::minus_inf || p.v_layout != Layout::bhsd ||
           p.q_layout == Layout::odd_base || p.threads != 0 || p.hq != p.hkv;
  };
  const Shrunk shrunk = shrink_where(start, fails);
  EXPECT_EQ(
      to_text(shrunk.minimal),
      "op=attention b=1 hq=1 hkv=1 lq=1 lk=5 d=1 dv=1 dtype=f32 values=constant:1 q_form=zero k_form=zero v_form=zero "
      "seed=0");
}

TEST(Shrink, AWindowAtTheEndOfItsTypeGoesDownToTheSmallestThatFails) {
  Problem start = problem_from_text("lq=9 lk=40 window_left=3 values=normal:1 seed=3");
  for (const Index end : {Index{0x7fff'ffff}, std::numeric_limits<Index>::max()})
    for (const Index least : {Index{17}, Index{1} << 31}) {
      if (least > end) continue;
      start.window_left = end;
      const Shrunk shrunk = shrink_where(start, [&](const Problem& p) { return p.window_left >= least; });
      EXPECT_EQ(shrunk.minimal.as<Problem>().window_left, least);
      EXPECT_EQ(shrunk.minimal.as<Problem>().multiply_adds(), 2);
    }
}

// A value changes within its kind: a window to the narrowest, a mask to one that closes rows, gaps to a base off its
// boundary.
TEST(Shrink, AnOptionThatIsThereMayTakeAnotherValue) {
  const Problem window = problem_from_text("lq=9 lk=40 window_left=7 values=normal:1 seed=3");
  EXPECT_EQ(
      shrink_where(window, [](const Problem& p) { return p.window_left >= 0 && (p.lk > 8 || p.window_left == 0); })
          .minimal.as<Problem>()
          .multiply_adds(),
      2);
  const Problem mask = problem_from_text("lq=9 lk=40 keep=half values=normal:1 seed=3");
  EXPECT_EQ(
      shrink_where(mask, [](const Problem& p) { return p.keep == Keep::closed || (p.keep != Keep::none && p.lk > 8); })
          .minimal.as<Problem>()
          .multiply_adds(),
      2);
  const Problem gaps = problem_from_text("lq=9 lk=40 d=3 k_layout=slice values=normal:1 seed=3");
  EXPECT_EQ(shrink_where(gaps,
                         [](const Problem& p) {
                           return p.k_layout == Layout::odd_base || (p.k_layout == Layout::slice && p.lk > 1);
                         })
                .minimal.as<Problem>()
                .multiply_adds(),
            2);
}

TEST(Shrink, MultiplesAreTheSteps) {
  ShrinkLimits limits;
  limits.supports.attention.d = {8, 256, 8};
  limits.supports.attention.dv_equals_d = true;
  limits.supports.attention.lk = {16, 4096, 16};
  limits.supports.attention.b = {2, 64, 2};
  limits.supports.attention.hq = {3, 48, 3};
  limits.supports.attention.alignment = 16;
  limits.dtypes = {Format::f16};
  const Problem start = problem_from_text("b=8 hq=12 hkv=4 lq=5 lk=1024 d=200 dv=200 dtype=f16 values=normal:1 seed=3");
  for (const Index least : {8, 24, 56, 104, 200}) {
    std::int64_t calls = 0;
    Verdict verdict = Verdict::fail({});
    const Try attempt = [&](const ops::Problem& any) {
      const Problem& p = any.as<Problem>();
      ++calls;
      EXPECT_FALSE(declined(p, limits.supports.attention, limits.dtypes)) << to_text(p);
      EXPECT_LE(p.d0 + p.d, 200);
      EXPECT_LE(p.lk0 + p.lk, 1024);
      return Trialled{p.d >= least && p.lk >= 2 * least ? std::optional(verdict) : std::nullopt, 1};
    };
    const Shrunk shrunk = shrink(start, verdict, attempt, limits, {});
    EXPECT_TRUE(shrunk.complete);
    EXPECT_EQ(shrunk.minimal.as<Problem>().d, least);
    EXPECT_EQ(shrunk.minimal.as<Problem>().lk, 2 * least);
    EXPECT_EQ(shrunk.minimal.as<Problem>().b, 2);
    EXPECT_EQ(shrunk.minimal.as<Problem>().hq, 3);
    EXPECT_LE(calls, 100) << least;
    if (least > 8) {
      EXPECT_NE(std::ranges::find(shrunk.neighbours, fmt::format("d: {} -> {}", least, least - 8)),
                shrunk.neighbours.end());
    }
  }
}

// The origin of a cut stays, or is reset at once: the same extents from elsewhere are no simpler, and without end.
TEST(Shrink, OriginsAreNotWalked) {
  ShrinkLimits limits;
  limits.supports.attention.d = {8, 256, 8};
  limits.supports.attention.lk = {8, 4096, 8};
  limits.dtypes = {Format::f32};
  Problem start = problem_from_text("lk=64 d=64 values=normal:1 seed=3");
  const Verdict verdict = Verdict::fail({});
  std::int64_t calls = 0;
  const Try attempt = [&](const ops::Problem& any) {
    const Problem& p = any.as<Problem>();
    ++calls;
    // Needs an origin: the plain reset passes, and every later origin fails.
    const bool fails = p == start || p.d0 + p.lk0 > 0;
    return Trialled{fails ? std::optional(verdict) : std::nullopt, 1};
  };
  const Shrunk shrunk = shrink(start, verdict, attempt, limits, {});
  EXPECT_TRUE(shrunk.complete);
  EXPECT_LE(calls, 100);
}

TEST(Shrink, RareNumbersAreFoundAmongManySamples) {
  // One value in 500, as a rounding that only shows near the middle of two numbers.
  const auto at = [](const Problem& p) -> std::optional<Verdict> {
    const Inputs inputs = materialise(p);
    for (Index b = 0; b < p.b; ++b)
      for (Index h = 0; h < p.hkv; ++h)
        for (Index j = 0; j < p.lk; ++j)
          for (Index c = 0; c < p.dv; ++c) {
            const double x = std::fabs(inputs.v.at(b, h, j, c));
            if (!(x > 0.5 && x < 0.503)) continue;
            Evidence witness;
            witness.index = {b, h * p.group(), 0, c};
            return Verdict::fail(witness);
          }
    return std::nullopt;
  };
  const Try attempt = [&](const ops::Problem& p) { return Trialled{at(p.as<Problem>()), 1}; };
  for (const std::uint64_t seed : {3u, 4u, 5u}) {
    Problem start = problem_from_text("b=4 hq=8 hkv=2 lq=3 lk=50 d=16 dv=24 values=normal:1");
    start.seed = seed;
    const Shrunk shrunk = shrink(start, *at(start), attempt, {{}, {Format::f32}, {}}, {});
    EXPECT_EQ(shrunk.minimal.as<Problem>().multiply_adds(), 2) << to_text(shrunk.minimal);
    EXPECT_LE(shrunk.calls, 60);
  }
}

TEST(Shrink, EditsFollowWhatTheyEdit) {
  Problem problem = problem_from_text("b=3 hq=4 hkv=2 lq=5 lk=6 d=4 dv=3 values=constant:1");
  problem.edits = {{Edit::Tensor::v, {2, 1, 4, 2}, 7}, {Edit::Tensor::q, {2, 3, 3, 1}, 5}};
  const auto holds = [](const Tensor& tensor, double x) {
    const auto n = tensor.shape();
    for (Index i = 0; i < tensor.size(); ++i)
      if (tensor.at(i / n[3] / n[2] / n[1], i / n[3] / n[2] % n[1], i / n[3] % n[2], i % n[3]) == x) return true;
    return false;
  };
  const auto fails = [&](const Problem& p) {
    const Inputs inputs = materialise(p);
    return holds(inputs.v, 7) && holds(inputs.q, 5);
  };
  Evidence witness;
  witness.index = {2, 3, 3, 2};
  const Try attempt = [&](const ops::Problem& any) {
    const Problem& p = any.as<Problem>();
    return Trialled{fails(p) ? std::optional(Verdict::fail(witness)) : std::nullopt, 1};
  };
  const Shrunk shrunk = shrink(problem, Verdict::fail(witness), attempt, {{}, {Format::f32}, {}}, {});
  EXPECT_EQ(shrunk.minimal.as<Problem>().multiply_adds(), 2) << to_text(shrunk.minimal);
  EXPECT_EQ(shrunk.minimal.as<Problem>().edits.size(), 2u);
}

}  // namespace
}  // namespace attest::engine
