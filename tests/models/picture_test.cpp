// The pictures of a report: the wrong elements, the error of all, and the problems of a campaign.
#include "models/picture.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "models/coverage.hpp"
#include "models/runtime.hpp"
#include "tests/graph/draw.hpp"

namespace attest::models {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// One output of float32 of `shape`, all zeros, with deviations of 1.
struct Zeros {
  explicit Zeros(std::vector<Index> shape, graph::Type type = graph::Type::f32) {
    model.outputs.push_back({"y", 0, type});
    const graph::Array array = graph::zeros(type, std::move(shape));
    const auto size = static_cast<std::size_t>(array.size());
    spreads.push_back({array, std::vector<double>(size, graph::is_floating(type) ? 1 : 0)});
    got.push_back(array);
    expected.push_back(array);
  }
  std::vector<Picture> pictures() const { return pictures_of(model, spreads, got, expected, 8); }
  graph::Model model;
  std::vector<graph::Spread> spreads;
  std::vector<graph::Array> got, expected;
};

TEST(Picture, HasEachWrongElementAtItsPlace) {
  Zeros zeros({2, 3, 4});
  zeros.got[0].floats[1 * 12 + 2 * 4 + 3] = -9;   // past 8
  zeros.got[0].floats[0 * 12 + 1 * 4 + 0] = 8;    // at the limit: permitted
  zeros.got[0].floats[0 * 12 + 1 * 4 + 1] = 2.5;  // between a quarter and a half
  const auto pictures = zeros.pictures();
  ASSERT_EQ(pictures.size(), 1u);
  const Picture& one = pictures[0];
  EXPECT_EQ(one.tensor, "y");
  EXPECT_EQ(one.extents, (std::array<Index, 4>{2, 3, 4, 1}));
  EXPECT_EQ(one.judged, 24);
  EXPECT_EQ(one.wrong, 1);
  EXPECT_EQ(one.wrong_at, (std::vector<std::array<Index, 4>>{{1, 2, 3, 0}}));
  EXPECT_EQ(one.exact, 21);
  EXPECT_EQ(one.octaves, (std::map<int, Index>{{-2, 1}, {0, 2}}));
  EXPECT_EQ(one.words, "1 of 2 along axis 0, 1 of 3 along axis 1, 1 of 4 along axis 2");
}

TEST(Picture, TakesNaNAndInfinityForWrongUnlessBothHaveIt) {
  Zeros zeros({4});
  zeros.got[0].floats = {std::nan(""), inf, inf, std::nan("")};
  zeros.expected[0].floats = {0, 0, inf, std::nan("")};
  const Picture one = zeros.pictures().at(0);
  EXPECT_EQ(one.wrong, 2);
  EXPECT_EQ(one.no_number, 2);
  EXPECT_EQ(one.exact, 2);
  zeros.expected[0].floats = {0, -inf, 0, 0};
  EXPECT_EQ(zeros.pictures().at(0).wrong, 4);
}

TEST(Picture, LeavesOutWhatIsUndeterminedAndWhatDoesNotFit) {
  Zeros zeros({3});
  zeros.got[0].floats = {1e9, 1e9, 0};
  zeros.spreads[0].deviation[0] = inf;
  zeros.spreads[0].reference.floats[1] = std::nan("");
  EXPECT_EQ(zeros.pictures().at(0).judged, 1);
  EXPECT_EQ(zeros.pictures().at(0).wrong, 0);
  EXPECT_EQ(zeros.pictures().at(0).words, "");
  zeros.got[0].shape = {1, 3};
  EXPECT_TRUE(zeros.pictures().empty());
}

TEST(Picture, OfIntegersEachThatDiffersIsWrong) {
  Zeros zeros({2, 2}, graph::Type::i64);
  zeros.got[0].integers[2] = 1;
  const Picture one = zeros.pictures().at(0);
  EXPECT_EQ(one.wrong_at, (std::vector<std::array<Index, 4>>{{1, 0, 0, 0}}));
  EXPECT_EQ(one.no_number, 1);
}

TEST(Picture, MakesOneOfTheAxesBeforeTheLastThree) {
  Zeros zeros({2, 3, 1, 2, 2});
  zeros.got[0].floats.back() = 100;
  const Picture one = zeros.pictures().at(0);
  EXPECT_EQ(one.extents, (std::array<Index, 4>{6, 1, 2, 2}));
  EXPECT_EQ(one.wrong_at, (std::vector<std::array<Index, 4>>{{5, 0, 1, 1}}));
}

// A tensor of 18,710 wrong columns has a wrong element in each cell of its picture, and its words count all of them.
TEST(Picture, DrawsAllThatIsWrong) {
  Zeros zeros({2, 18'710});
  for (double& value : zeros.got[0].floats) value = 100;
  const Picture one = zeros.pictures().at(0);
  EXPECT_EQ(one.wrong, 2 * 18'710);
  EXPECT_EQ(one.wrong_at.size(), 2u * 32u);
  EXPECT_EQ(one.words, "2 of 2 along axis 0, 18710 of 18710 along axis 1");
}

TEST(Picture, ComesBackFromItsText) {
  Zeros zeros({5, 7});
  for (std::size_t i = 0; i < 35; ++i) zeros.got[0].floats[i] = std::ldexp(1.0, static_cast<int>(i)) - 1;
  zeros.got[0].floats[9] = std::nan("");
  const Picture one = zeros.pictures().at(0);
  const auto text = to_json(one);
  EXPECT_EQ(to_json(picture_from_json(text)), text);
  Index all = one.exact + one.no_number;
  for (const auto& [octave, count] : one.octaves) all += count;
  EXPECT_EQ(all, one.judged);
}

// Each problem is counted once in each field and once in each table, and where it is counted is where it lies.
TEST(CoverageOfModels, CountsEveryProblemOnce) {
  const Part part = part_of_model(graph::test::model("encoder"));
  const graph::Family family(*part.program);
  const Stream stream(family, 5, 128);
  const Coverage coverage = coverage_of(stream, 300);
  EXPECT_EQ(coverage.problems, 300u);
  ASSERT_EQ(coverage.fields.size(), 4u);  // batch and length, ids and mask
  for (const auto& field : coverage.fields) {
    std::uint64_t all = 0;
    for (const auto& [value, count] : field.values) all += count;
    EXPECT_EQ(all, 300u) << field.name;
  }
  ASSERT_EQ(coverage.tables.size(), 5u);
  for (const auto& table : coverage.tables) {
    std::uint64_t all = 0;
    for (const auto& row : table.cells) all = std::accumulate(row.begin(), row.end(), all);
    EXPECT_EQ(all, 300u) << table.name;
  }
  std::map<std::string, std::uint64_t> lengths;
  std::uint64_t pairs = 0;
  for (std::uint64_t number = 0; number < 300; ++number) {
    const graph::Problem problem = stream.problem(number);
    const Index batch = problem.sizes.at("batch"), length = problem.sizes.at("length");
    if (length >= 5 && length <= 8) ++lengths["5..8"];
    if (length == 1) ++lengths["1"];
    if (length == 1 && batch >= 3 && batch <= 4) ++pairs;
  }
  for (const auto& [value, count] : coverage.fields[1].values)
    EXPECT_TRUE(!lengths.contains(value) || count == lengths[value]) << value;
  const auto& table = coverage.tables[0];
  EXPECT_EQ(table.name, "size.batch and size.length");
  const auto row = std::ranges::find(table.rows, "3..4") - table.rows.begin();
  ASSERT_EQ(table.columns[0], "1");
  EXPECT_GT(pairs, 0u);
  EXPECT_EQ(table.cells[static_cast<std::size_t>(row)][0], pairs);
}

}  // namespace
}  // namespace attest::models
