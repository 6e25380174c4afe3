// The frequency of everything that is drawn: every value of every field, combinations of fields, and the distribution
// of the work.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "core/distribution.hpp"
#include "tests/generators/statistics.hpp"

namespace attest {
namespace {

using test::share;

const std::vector<Problem>& drawn() {
  static const std::vector<Problem> problems =
      test::draw_many(Domain(Supports::everything(), {Format::f16, Format::bf16, Format::f32, Format::f64}), 1, 20'000);
  return problems;
}

bool windowed(const Problem& p) { return p.window_left >= 0 || p.window_right >= 0; }

TEST(Distribution, EveryProblemIsValidAndSurvivesItsText) {
  for (const Problem& problem : drawn()) {
    ASSERT_NO_THROW(validate(problem)) << to_text(problem);
    ASSERT_EQ(problem_from_text(to_text(problem)), problem);
  }
}

// Nothing is clamped where no number can be too large.
TEST(Distribution, NoNumberIsLargerThanIsTold) {
  std::size_t told = 0;
  double nearest = 0;
  std::array<double, 256> rows;
  for (std::size_t n = 0; n < drawn().size(); n += 10)
    for (const auto which : {Edit::Tensor::q, Edit::Tensor::k, Edit::Tensor::v}) {
      const Problem& problem = drawn()[n];
      const Distribution distribution = distribution_of(problem, which);
      const double most = largest_magnitude(distribution);
      told += most < std::numeric_limits<double>::infinity() ? 1 : 0;
      draw_from(distribution, problem, which, {0, 1, 0, 1, 0, 16, 0, 16}, rows.data());
      for (const double x : rows) {
        ASSERT_LE(std::fabs(x), most) << to_text(problem);
        if (most > 0) nearest = std::max(nearest, std::fabs(x) / most);
      }
    }
  EXPECT_GE(told, drawn().size() / 10);  // a bound is known for a tenth
  EXPECT_EQ(nearest, 1);
}

TEST(Distribution, EveryLabelOfEveryFieldIsDrawn) {
  const std::map<std::string_view, std::set<std::string_view>> never = {
      {"dtype", {"tf32"}},   // no storage format
      {"values", {"file"}},  // captured activations are given
      {"out_layout", {"broadcast_batch", "broadcast_heads", "broadcast_rows"}},
      {"mask_layout", {"broadcast_batch", "broadcast_heads", "broadcast_rows"}}};  // masks broadcast by their axes
  for (const Field& field : fields()) {
    if (field.kind != FieldKind::label && field.kind != FieldKind::flag) continue;
    std::vector<int> count(static_cast<std::size_t>(field.hi) + 1);
    for (const Problem& problem : drawn()) ++count[static_cast<std::size_t>(field.get(problem))];
    for (std::size_t i = 0; i < count.size(); ++i) {
      const std::string_view label = field.labels.empty() ? (i ? "1" : "0") : field.labels[i];
      const auto exempt = never.find(field.name);
      if (exempt != never.end() && exempt->second.contains(label))
        EXPECT_EQ(count[i], 0) << field.name << "=" << label;
      else
        EXPECT_GE(count[i], 50) << field.name << "=" << label;
    }
  }
}

TEST(Distribution, EveryEdgeOfALengthIsDrawn) {
  const std::pair<std::string_view, Index> edges_up_to[] = {{"lk", 4097}, {"lq", 129}, {"b", 65},  {"hq", 65},
                                                            {"hkv", 17},  {"d", 257},  {"dv", 257}};
  for (const auto& [name, most] : edges_up_to) {
    const Field& field = *find_field(name);
    std::set<Index> seen;
    for (const Problem& problem : drawn()) seen.insert(field.get(problem));
    for (const Index edge : field.edges) EXPECT_TRUE(edge > most || seen.contains(edge)) << name << "=" << edge;
  }
}

TEST(Distribution, EveryResidueOfALengthIsDrawn) {
  std::set<Index> lk, lq, d;
  for (const Problem& problem : drawn()) {
    lk.insert(problem.lk % 64);
    lq.insert(problem.lq % 64);
    d.insert(problem.d % 16);
  }
  EXPECT_EQ(lk.size(), 64u);
  EXPECT_EQ(lq.size(), 64u);
  EXPECT_EQ(d.size(), 16u);
}

TEST(Distribution, OptionsMeetInPairsAndTriples) {
  const std::pair<std::string_view, bool (*)(const Problem&)> options[] = {
      {"causal", [](const Problem& p) { return p.causal; }},
      {"window", windowed},
      {"keep", [](const Problem& p) { return p.keep != Keep::none; }},
      {"bias", [](const Problem& p) { return p.bias != Bias::none; }},
      {"lengths", [](const Problem& p) { return p.lengths != Lengths::none; }},
      {"softcap", [](const Problem& p) { return p.softcap > 0; }},
      {"lse", [](const Problem& p) { return p.lse != LseOutput::none; }},
      {"groups", [](const Problem& p) { return p.hq > p.hkv; }},
      {"other width", [](const Problem& p) { return p.d != p.dv; }},
      {"decode", [](const Problem& p) { return p.lq == 1 && p.lk > 1; }},
      {"long", [](const Problem& p) { return p.lk >= 256; }},
      {"layout", [](const Problem& p) { return p.k_layout != Layout::bhsd; }},
      {"scale", [](const Problem& p) { return p.scale.has_value(); }},
  };
  for (const auto& [name, holds] : options) EXPECT_GT(share(drawn(), holds), 0.07) << name;
  for (const auto& [first, a] : options)
    for (const auto& [second, b] : options)
      for (const auto& [third, c] : options)
        if (!(first == "decode" && second == "groups")) {
          const auto all = [&, a = a, b = b, c = c](const Problem& p) { return a(p) && b(p) && c(p); };
          EXPECT_GT(share(drawn(), all), 0) << first << ", " << second << ", " << third;
        }
}

TEST(Distribution, EveryKindOfMaskMeetsCausalityLengthsAndBias) {
  std::set<std::array<Index, 4>> seen;
  std::set<std::array<Index, 2>> keep_and_bias;
  for (const Problem& p : drawn()) {
    seen.insert({static_cast<Index>(p.keep), p.causal, static_cast<Index>(p.align), p.lengths != Lengths::none});
    keep_and_bias.insert({static_cast<Index>(p.keep), static_cast<Index>(p.bias)});
  }
  for (Index keep = 0; keep < static_cast<Index>(keep_count); ++keep)
    for (const auto& [causal, align] : {std::array<Index, 2>{0, 0}, {1, 0}, {1, 1}})
      for (const Index lengths : {0, 1})
        EXPECT_TRUE(seen.contains({keep, causal, align, lengths})) << keep << causal << align << lengths;
  EXPECT_GE(keep_and_bias.size(), keep_count * bias_count - 3);  // the rarest pairs come once in 5,000 problems
}

TEST(Distribution, MasksTakeEverySetOfAxes) {
  std::set<Index> keep, bias;
  for (const Problem& p : drawn()) {
    if (p.keep != Keep::none) keep.insert(p.keep_axes);
    if (p.bias != Bias::none) bias.insert(p.bias_axes);
  }
  EXPECT_EQ(keep.size(), 16u);
  EXPECT_EQ(bias.size(), 16u);
}

TEST(Distribution, WindowsAreEmptyNarrowAboutAllAndMore) {
  const auto some = [](bool (*holds)(const Problem&)) { return share(drawn(), holds) > 0.005; };
  EXPECT_TRUE(some([](const Problem& p) { return p.window_left == 0; }));
  EXPECT_TRUE(some([](const Problem& p) { return p.window_right == 0; }));
  EXPECT_TRUE(some([](const Problem& p) { return p.window_left > 0 && p.window_left < p.lk - 1; }));
  EXPECT_TRUE(some([](const Problem& p) { return p.window_left > p.lk; }));
  EXPECT_TRUE(some([](const Problem& p) { return p.window_left >= 0 && p.window_right >= 0; }));
  for (const Index end : {Index{1} << 31, Index{1} << 32, std::numeric_limits<Index>::max()}) {
    const auto at_end = [&](Index window) { return window == end || window == end - 1; };
    EXPECT_GT(share(drawn(), [&](const Problem& p) { return at_end(p.window_left); }), 0.0015) << end;
    EXPECT_GT(share(drawn(), [&](const Problem& p) { return at_end(p.window_right); }), 0.0015) << end;
  }
  // Such a number cut to 32 bits closes keys.
  EXPECT_GT(share(drawn(),
                  [](const Problem& p) {
                    return p.window_left >= Index{1} << 32 && p.window_left + 1 < (Index{1} << 32) + p.lk;
                  }),
            0.0005);
}

TEST(Distribution, SoftcapsAreUsualAndPastWhatFormatsHold) {
  const auto of = [](bool (*holds)(double)) {
    return share(drawn(), [&](const Problem& p) { return p.softcap > 0 && holds(p.softcap); });
  };
  EXPECT_GT(of([](double c) { return c >= 1 && c <= 64; }), 0.08);
  EXPECT_GT(of([](double c) { return c > 65504; }), 0.005);
  EXPECT_GT(of([](double c) { return c < 0x1p-4; }), 0.004);
}

TEST(Distribution, ScaleIsDefaultZeroNegativeSmallAndLarge) {
  const auto of = [](bool (*holds)(double)) {
    return share(drawn(), [&](const Problem& p) { return p.scale && holds(*p.scale); });
  };
  EXPECT_NEAR(share(drawn(), [](const Problem& p) { return !p.scale; }), 0.5, 0.02);
  EXPECT_GT(of([](double s) { return s == 0; }), 0.04);
  EXPECT_GT(of([](double s) { return s < 0; }), 0.04);
  EXPECT_GT(of([](double s) { return s == 1; }), 0.04);
  EXPECT_GT(of([](double s) { return s > 0 && s < 0x1p-6; }), 0.01);
  EXPECT_GT(of([](double s) { return s > 4; }), 0.005);
  EXPECT_GT(of([](double s) { return std::fabs(std::frexp(s, std::array<int, 1>{}.data())) != 0.5 && s != 0; }), 0.1);
}

TEST(Distribution, RegimesWithoutAUsefulBoundAreRare) {
  const double rare = share(drawn(), [](const Problem& p) {
    return p.values == Values::wide || p.values == Values::huge || p.amplitude > 32 ||
           std::fabs(p.scale.value_or(0)) > 256;
  });
  EXPECT_GT(rare, 0.01);
  EXPECT_LT(rare, 0.05);
}

TEST(Distribution, WorkIsLogUniformInItsBands) {
  // Octaves of W from 2 on, the smallest problem: 1/15 of 90 % each, less where whole numbers leave some of the work
  // unused; and those of problems of production, half of them in five octaves from 13 on, half in four from 17 on.
  constexpr double production = 1.0 / 40, others = 1 - production;
  std::array<double, 40> octave{};
  double mean = 0;
  Domain domain(Supports{}, {Format::f32});
  domain.draw_sizes(SizeRegime::small);
  const std::vector<Problem> problems = test::draw_many(domain, 2, 100'000);
  for (const Problem& problem : problems) {
    const Index work = problem.multiply_adds();
    ASSERT_GE(work, 2);
    ASSERT_LE(work, Index{1} << 28);
    octave[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(work))) - 1] += 1e-5;
    mean += static_cast<double>(work) * 1e-5;
  }
  for (std::size_t i = 2; i <= 12; ++i) EXPECT_NEAR(octave[i], others * (0.9 / 15 + 0.099 / 21), 0.01) << i;
  EXPECT_NEAR(octave[16], others * 0.099 / 21 + production / 10, 0.0015);
  EXPECT_NEAR(octave[19], others * 0.099 / 21 + production / 8, 0.0015);
  double large = 0;
  for (std::size_t i = 22; i < octave.size(); ++i) large += octave[i];
  EXPECT_GT(large, 0.0001);
  EXPECT_LT(large, 0.0004);
  EXPECT_GT(mean, 25'000);
  EXPECT_LT(mean, 50'000);
}

TEST(Distribution, LongRowsAreCommon) {
  const double share_long = share(drawn(), [](const Problem& p) { return p.lk >= 256; });
  EXPECT_GT(share_long, 0.08);
  EXPECT_LT(share_long, 0.16);
  EXPECT_GT(share(drawn(), [](const Problem& p) { return p.lk >= 4096; }), 0.01);
  EXPECT_GT(share(drawn(), [](const Problem& p) { return p.lk == 1; }), 0.1);
}

TEST(Distribution, WidthsAndGroupsOfProductionMeetLongRows) {
  const auto widths = [](const Problem& p) {
    return p.d == p.dv && (p.d == 64 || p.d == 80 || p.d == 96 || p.d == 128 || p.d == 256);
  };
  const auto groups = [](const Problem& p) { return p.hkv > 0 && (p.hq == 4 * p.hkv || p.hq == 8 * p.hkv); };
  EXPECT_GT(share(drawn(), widths), 0.04);
  EXPECT_GT(share(drawn(), [&](const Problem& p) { return widths(p) && groups(p); }), 0.025);
  EXPECT_GT(share(drawn(), [&](const Problem& p) { return widths(p) && groups(p) && p.lk >= 256; }), 0.005);
  EXPECT_GT(share(drawn(), [&](const Problem& p) { return widths(p) && groups(p) && p.lq == 1 && p.lk > 1; }), 0.01);
}

TEST(Distribution, LayoutsAgreeInHalfOfTheStridedProblems) {
  std::size_t strided = 0, agreeing = 0, with_out = 0;
  for (const Problem& p : drawn()) {
    if (p.q_layout == Layout::bhsd && p.k_layout == Layout::bhsd && p.v_layout == Layout::bhsd) continue;
    const bool agree = p.q_layout == p.k_layout && p.k_layout == p.v_layout;
    ++strided;
    agreeing += agree;
    with_out += agree && p.out_layout == p.q_layout;
  }
  const auto of_strided = [&](std::size_t count) { return static_cast<double>(count) / static_cast<double>(strided); };
  EXPECT_NEAR(static_cast<double>(strided) / static_cast<double>(drawn().size()), 0.5, 0.02);
  EXPECT_NEAR(of_strided(agreeing), 0.5, 0.03);
  EXPECT_GT(of_strided(with_out), 0.25);
}

TEST(Distribution, ABatchPast65535ComesWithinAThousandProblems) {
  const auto past = [](const Problem& p) { return p.b > 65535; };
  for (const Supports::Strides strides : {Supports::Strides::any, Supports::Strides::contiguous})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      Supports supports;
      supports.strides = strides;
      EXPECT_GE(share(test::draw_many(Domain(supports, {Format::f32}), seed, 1000), past), 0.001) << seed;
    }
  Supports few;
  few.b.max = 64;
  EXPECT_EQ(share(test::draw_many(Domain(few, {Format::f32}), 1, 1000), past), 0);
}

TEST(Distribution, ADimensionTakesItsExtremeWhileOthersAreSmall) {
  const auto problems = test::draw_many(Domain(Supports{}, {Format::f16}), 3, 100'000);
  const auto crowd = [&](auto size) {
    return share(problems,
                 [&](const Problem& p) { return size(p) >= 65535 && p.lq <= 2 && p.lk <= 2 && p.d <= 2 && p.dv <= 2; });
  };
  EXPECT_GT(crowd([](const Problem& p) { return p.b; }), 0.0003);
  EXPECT_GT(crowd([](const Problem& p) { return p.hq; }), 0.0003);
  const auto reaches = [&](auto size, Index most) {
    return share(problems, [&](const Problem& p) { return size(p) >= most; });
  };
  EXPECT_GT(reaches([](const Problem& p) { return p.lk; }, Index{1} << 20), 0);
  EXPECT_GT(reaches([](const Problem& p) { return p.lk; }, Index{1} << 16), 0.0004);
  EXPECT_GT(reaches([](const Problem& p) { return p.lq; }, Index{1} << 16), 0);
  EXPECT_GT(reaches([](const Problem& p) { return p.d; }, 1024), 0);
  EXPECT_GT(reaches([](const Problem& p) { return p.dv; }, 1024), 0);
}

TEST(Distribution, RowsAreSampledInLargeProblemsAlone) {
  constexpr Index many_rows = 65535;
  std::size_t sampled = 0;
  for (const Problem& problem : test::draw_many(Domain(Supports{}, {Format::f32}), 4, 50'000)) {
    const Index rows = problem.b * problem.hq * problem.lq, per_row = problem.lk * (problem.d + problem.dv + 24);
    const Index judged = problem.rows > 0 ? problem.rows : rows;
    ASSERT_LE(judged, rows);
    ASSERT_LE(judged * per_row, std::max(Index{1} << 21, 16 * per_row)) << to_text(problem);
    ASSERT_TRUE(judged == rows || rows * per_row > Index{1} << 21 || rows >= many_rows) << to_text(problem);
    ASSERT_GE(judged, std::min<Index>(rows, 8));
    ASSERT_TRUE(judged <= 8192 || rows < many_rows) << to_text(problem);
    sampled += judged < rows ? 1 : 0;
  }
  EXPECT_GT(sampled, 100u);
  EXPECT_LT(sampled, 1500u);
}

}  // namespace
}  // namespace attest
