#include "graph/laws.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/emulated.hpp"
#include "graph/read.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/faults.hpp"
#include "tests/graph/onnx_file.hpp"
#include "tests/graph/runtimes.hpp"

namespace attest::graph {
namespace {

using test::attr;
using test::File;
constexpr double inf = std::numeric_limits<double>::infinity();

Program program_of(const File& file) { return Program(read_model(file.bytes(), "m")); }

class Differences : public ::testing::Test {
 protected:
  static File file() {
    File f;
    f.inputs = {{"x", Type::f32, {"n", 4}}};
    f("Exp", {"x"}, {}, "y");
    f("Greater", {"x", f.scalar(0)}, {}, "positive");
    f.outputs = {"y", "positive"};
    return f;
  }
  Differences() : program(program_of(file())), ensemble(program, feeds, {}, 3) {
    sound = results_by(program, feeds, *nearest(), {});
  }
  Feeds feeds{{"x", floats(Type::f32, {2, 4}, {0.1, 0.2, 0.3, 1, -0.5, 2, 3, 100})}};
  Program program;
  Ensemble ensemble;
  std::vector<Array> sound;
};

TEST_F(Differences, AreCountedInDeviations) {
  EXPECT_TRUE(difference(ensemble, sound, sound).bits);
  const auto& many = ensemble.spreads(many_members);
  const auto moved = [&](double by) {
    auto other = sound;
    other[0].floats[2] += by * many[0].deviation[2];
    return difference(ensemble, sound, other);
  };
  EXPECT_FALSE(moved(7.99).bits);
  EXPECT_NEAR(moved(7.99).deviations, 7.99, 1e-6);
  EXPECT_TRUE(agrees(moved(7.99)));
  EXPECT_FALSE(agrees(moved(8.01)));
  EXPECT_FALSE(agrees(moved(-8.01)));
  ASSERT_TRUE(moved(8.01).witness);
  EXPECT_EQ(moved(8.01).witness->element, 2);
}

TEST_F(Differences, AreInfiniteBetweenKinds) {
  for (const double wrong : {std::nan(""), inf}) {
    auto other = sound;
    other[0].floats[1] = wrong;
    EXPECT_EQ(difference(ensemble, sound, other).deviations, inf);
    EXPECT_EQ(difference(ensemble, other, sound).deviations, inf);
  }
  auto other = sound;
  other[1].integers[0] ^= 1;
  EXPECT_FALSE(agrees(difference(ensemble, sound, other)));
  other = sound;
  other[0].shape = {4, 2};
  EXPECT_EQ(difference(ensemble, sound, other).mismatch, "output 0 is float32 [2, 4] and float32 [4, 2]");
  EXPECT_FALSE(agrees(difference(ensemble, sound, other)));
  other = sound;
  other.pop_back();
  EXPECT_EQ(difference(ensemble, sound, other).mismatch, "2 outputs and 1");
  for (Array& one : other) one.shape = {4, 2};
  EXPECT_EQ(difference(ensemble, other, other).bits, true);
}

// e^100 is no float32: whatever two runtimes make of it is left to other laws.
TEST_F(Differences, LeaveUndeterminedElements) {
  auto other = sound;
  EXPECT_EQ(sound[0].floats[7], inf);
  other[0].floats[7] = largest_finite(Format::f32);
  EXPECT_FALSE(difference(ensemble, sound, other).bits);
  EXPECT_EQ(difference(ensemble, sound, other).deviations, 0);
}

TEST(Batch, IsTheFirstAxisOfInputs) {
  EXPECT_EQ(batch_axis(test::model("encoder")), "batch");
  EXPECT_EQ(batch_axis(test::model("attention-both")), "batch");
  EXPECT_EQ(batch_axis(test::model("norm")), "rows");
  const auto of = [](std::vector<test::FileInput> inputs) {
    File f;
    f.inputs = std::move(inputs);
    f("Identity", {f.inputs[0].name}, {}, "out");
    f.outputs = {"out"};
    return batch_axis(read_model(f.bytes(), "m"));
  };
  EXPECT_EQ(of({{"x", Type::f32, {"b", 2}}, {"w", Type::f32, {2, 2}}, {"s", Type::f32, {}}}), "b");
  EXPECT_FALSE(of({{"x", Type::f32, {"b", 2}}, {"y", Type::f32, {"c", 2}}}));
  EXPECT_FALSE(of({{"x", Type::f32, {"b", "b"}}}));
  EXPECT_FALSE(of({{"x", Type::f32, {2, "b"}}}));
}

TEST(Batch, IsTakenApartAndJoined) {
  const Model model = test::model("encoder");
  const Feeds feeds{{"ids", integers(Type::i64, {2, 3}, {1, 2, 3, 4, 5, 6})},
                    {"mask", integers(Type::i64, {2, 3}, {1, 1, 1, 1, 0, 0})}};
  const Feeds second = sample(model, feeds, "batch", 1);
  EXPECT_EQ(second.at("ids").integers, (std::vector<std::int64_t>{4, 5, 6}));
  EXPECT_EQ(second.at("ids").shape, (std::vector<Index>{1, 3}));
  const auto whole = joined({{sample(model, feeds, "batch", 0).at("ids")}, {second.at("ids")}});
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->front().integers, feeds.at("ids").integers);
  EXPECT_EQ(whole->front().shape, feeds.at("ids").shape);
  EXPECT_FALSE(joined({{feeds.at("ids")}, {second.at("ids")}}));
}

// A problem of a model with several samples.
Feeds several(const Family& family, std::uint64_t number) {
  Problem problem = family.draw(13, number, 512);
  problem.sizes.at("batch") = 2 + static_cast<Index>(number % 3);
  return family.feeds(problem);
}

constexpr BatchChange changes[] = {BatchChange::alone, BatchChange::permuted, BatchChange::duplicated};

TEST(BatchAlone, HoldsForConformingRuntimes) {
  for (const char* const name : {"attention-queries", "attention-both", "attention-f16", "encoder"}) {
    const Program program(test::model(name));
    const Family family(program);
    for (std::uint64_t i = 0; i < 10; ++i) {
      const Feeds feeds = several(family, i);
      Ensemble ensemble(program, feeds, {}, i);
      for (const auto& [kind, how] : test::runtimes()) {
        if (how.ulps > 0) continue;  // functions hang on an element's place
        const auto arithmetic = careless(how);
        const Runtime runtime = [&](const Feeds& of) { return results_by(program, of, *arithmetic, {}); };
        for (const BatchChange change : changes) {
          const auto law = batch_law(change, program, ensemble, feeds, runtime(feeds), runtime);
          EXPECT_EQ(law.not_applicable, "");
          EXPECT_TRUE(law.difference.bits) << name << " " << kind << " " << graph::name(change);
        }
      }
      // Samples alone by another runtime agree within the tolerance.
      const auto one = careless({}), other = careless({.partial_sums = 8, .ulps = 1});
      const auto law = batch_alone(program, ensemble, feeds, results_by(program, feeds, *one, {}),
                                   [&](const Feeds& of) { return results_by(program, of, *other, {}); });
      EXPECT_TRUE(agrees(law.difference)) << name << " " << law.difference.deviations;
    }
  }
}

TEST(BatchAlone, FindsALeak) {
  for (const char* const name : {"attention-queries", "encoder"}) {
    const Program program(test::model(name));
    const Family family(program);
    for (const auto& fault : test::faults()) {
      if (fault.name != "batch-leak") continue;
      const Program faulty(*fault.plant(program.model()));
      const auto arithmetic = nearest();
      const Runtime runtime = [&](const Feeds& of) { return results_by(faulty, of, *arithmetic, {}); };
      int changed = 0, found = 0, found_permuted = 0;
      for (std::uint64_t i = 0; i < 20; ++i) {
        const Feeds feeds = several(family, i);
        const auto whole = runtime(feeds);
        if (whole.back().floats == results_by(program, feeds, *arithmetic, {}).back().floats) continue;
        ++changed;
        Ensemble ensemble(program, feeds, {}, i);
        const auto law = batch_alone(program, ensemble, feeds, whole, runtime);
        found += law.not_applicable.empty() && !agrees(law.difference);
        found_permuted +=
            !agrees(batch_law(BatchChange::permuted, program, ensemble, feeds, whole, runtime).difference);
      }
      EXPECT_GE(found_permuted, changed * 0.8) << name << ": " << found_permuted << " of " << changed;
      EXPECT_GE(changed, 8) << name;
      EXPECT_GE(found, changed * 0.8) << name << ": " << found << " of " << changed;
    }
  }
}

// A runtime that is off by one in the first or the last sample of a batch that was doubled.
TEST(BatchDuplicated, LooksAtBothHalves) {
  const Program program(test::model("attention-queries"));
  const Family family(program);
  const auto arithmetic = nearest();
  for (const bool first : {true, false}) {
    const Feeds feeds = several(family, 1);
    const Index samples = feeds.at("q").shape[0];
    const Runtime runtime = [&](const Feeds& of) {
      auto got = results_by(program, of, *arithmetic, {});
      if (of.at("q").shape[0] > samples) (first ? got[0].floats.front() : got[0].floats.back()) += 1;
      return got;
    };
    Ensemble ensemble(program, feeds, {}, 1);
    const auto law = batch_law(BatchChange::duplicated, program, ensemble, feeds, runtime(feeds), runtime);
    EXPECT_EQ(law.not_applicable, "");
    EXPECT_FALSE(agrees(law.difference)) << first;
  }
}

TEST(BatchAlone, KnowsWhereItDoesNotApply) {
  const auto why = [](const std::function<void(File&)>& build, Index batch) {
    File f;
    f.inputs = {{"x", Type::f32, {"b", 2}}};
    build(f);
    f.outputs = {f.nodes.back().outputs.front()};
    const Program program = program_of(f);
    const Family family(program);
    const Feeds feeds = family.feeds(problem_from_text("size.b=" + std::to_string(batch) + " values.x=normal seed=1"));
    Ensemble ensemble(program, feeds, {}, 1);
    const auto arithmetic = nearest();
    const Runtime runtime = [&](const Feeds& of) { return results_by(program, of, *arithmetic, {}); };
    return batch_alone(program, ensemble, feeds, runtime(feeds), runtime).not_applicable;
  };
  const auto row_wise = [](File& f) { f("Softmax", {"x"}); };
  EXPECT_EQ(why(row_wise, 3), "");
  EXPECT_EQ(why(row_wise, 1), "the batch is one sample");
  EXPECT_EQ(why([](File& f) { f("Softmax", {"x"}, {attr("axis", std::int64_t{0})}); }, 3),
            "samples of this graph depend on each other");
  EXPECT_EQ(why([](File& f) { f("ReduceSum", {"x", f.axes({0})}); }, 3), "samples of this graph depend on each other");
  EXPECT_EQ(why([](File& f) { f("ReduceSum", {"x"}, {attr("keepdims", std::int64_t{0})}); }, 3),
            "samples of this graph depend on each other");
}

}  // namespace
}  // namespace attest::graph
