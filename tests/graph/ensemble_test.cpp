#include "graph/ensemble.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "graph/emulated.hpp"
#include "graph/read.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/faults.hpp"
#include "tests/graph/onnx_file.hpp"
#include "tests/graph/runtimes.hpp"

namespace attest::graph {
namespace {

using Outcome = Judgement::Outcome;
using test::File;
constexpr double inf = std::numeric_limits<double>::infinity();

// y = softmax(x w), and which entries of x are positive: 64 floats and 64 booleans.
class Judged : public ::testing::Test {
 protected:
  static Array numbers(std::uint64_t seed, double unit) {
    Array x = zeros(Type::f32, {8, 8});
    test::Draw draw(seed);
    for (double& v : x.floats) v = static_cast<double>(draw.below(2001) - 1000) * unit;
    return x;
  }
  static std::string file() {
    File f;
    f.inputs = {{"x", Type::f32, {"rows", 8}}};
    const auto w = f.constant(numbers(5, 0x1p-8));
    f("Softmax", {f("MatMul", {"x", w})}, {}, "y");
    f("Greater", {"x", f.scalar(0)}, {}, "positive");
    f.outputs = {"y", "positive"};
    return f.bytes();
  }
  static Feeds inputs() { return {{"x", numbers(6, 0x1p-9)}}; }

  Judged() : program(read_model(file(), "m")), feeds(inputs()), ensemble(program, feeds, {}, 9) {
    sound = results_by(program, feeds, *nearest(), {});
  }
  Program program;
  Feeds feeds;
  Ensemble ensemble;
  std::vector<Array> sound;
};

TEST_F(Judged, HoldsWhatIsSound) {
  const auto judged = ensemble.judge(sound);
  EXPECT_EQ(judged.outcome, Outcome::held);
  EXPECT_EQ(judged.members, few_members);
  EXPECT_EQ(judged.judged, 128);
  EXPECT_EQ(judged.undetermined, 0);
  EXPECT_LT(judged.z, accepted_z);
  ASSERT_TRUE(judged.t);
  EXPECT_LT(*judged.t, accepted_t);
}

// An element moved by so many deviations; few members pass it on, many decide.
TEST_F(Judged, FailsByOneElement) {
  const auto many = ensemble.spreads(many_members)[0];
  const auto moved = [&](double deviations) {
    auto out = sound;
    out[0].floats[11] = many.reference.floats[11] + deviations * many.deviation[11];
    return ensemble.judge(out);
  };
  EXPECT_EQ(moved(9.99).outcome, Outcome::held);
  EXPECT_EQ(moved(9.99).members, many_members);
  const auto failed = moved(10.01);
  EXPECT_EQ(failed.outcome, Outcome::failed);
  EXPECT_EQ(failed.members, many_members);
  EXPECT_NEAR(failed.z, 10.01, 1e-6);
  ASSERT_TRUE(failed.witness);
  EXPECT_EQ(failed.witness->output, "y");
  EXPECT_EQ(failed.witness->element, 11);
  EXPECT_EQ(moved(-10.01).outcome, Outcome::failed);
}

TEST_F(Judged, FailsByAllElementsTogether) {
  const auto many = ensemble.spreads(many_members)[0];
  const auto moved = [&](double deviations) {
    auto out = sound;
    for (std::size_t i = 0; i < out[0].floats.size(); ++i)
      out[0].floats[i] = many.reference.floats[i] + deviations * many.deviation[i];
    return ensemble.judge(out);
  };
  EXPECT_EQ(moved(1.99).outcome, Outcome::held);
  EXPECT_EQ(moved(2.01).outcome, Outcome::failed);
  EXPECT_LT(moved(2.01).z, accepted_z);
}

TEST_F(Judged, FailsWhatIsNotFiniteAndWhatIsOtherwise) {
  for (const double wrong : {std::nan(""), inf, -inf}) {
    auto out = sound;
    out[0].floats[3] = wrong;
    const auto judged = ensemble.judge(out);
    EXPECT_EQ(judged.outcome, Outcome::failed) << wrong;
    EXPECT_EQ(judged.z, inf);
  }
  auto out = sound;
  out[1].integers[5] ^= 1;
  const auto judged = ensemble.judge(out);
  EXPECT_EQ(judged.outcome, Outcome::failed);
  ASSERT_TRUE(judged.witness);
  EXPECT_EQ(judged.witness->output, "positive");
}

TEST_F(Judged, FailsOutputsOfAnotherKind) {
  auto out = sound;
  out[0].shape = {64};
  EXPECT_EQ(ensemble.judge(out).outcome, Outcome::failed);
  EXPECT_EQ(ensemble.judge(out).mismatch, "output 'y' is float32 [64] in place of float32 [8, 8]");
  out = sound;
  out[0].type = Type::f64;
  EXPECT_EQ(ensemble.judge(out).outcome, Outcome::failed);
  out = sound;
  out.pop_back();
  EXPECT_EQ(ensemble.judge(out).mismatch, "1 outputs in place of 2");
}

TEST_F(Judged, IsTheSameEveryTime) {
  const auto spread = [&](std::uint64_t seed, bool many_first) {
    Ensemble one(program, feeds, {}, seed);
    if (many_first) one.spreads(many_members);
    one.spreads(few_members);
    return std::make_pair(one.spreads(few_members)[0].deviation, one.spreads(many_members)[0].deviation);
  };
  EXPECT_EQ(spread(9, false), spread(9, true));
  EXPECT_NE(spread(9, false), spread(10, false));
}

// All elements of a row share the error of its mean: with few rows T is as uncertain as that. A runtime that adds one
// by one came to T = 2.2 on two rows.
TEST(Ensemble, AsksLessOfTWhereErrorsAreShared) {
  const Program program(test::model("norm"));
  const Family family(program);
  const auto limit = [&](const std::string& rows) {
    const Feeds feeds =
        family.feeds(problem_from_text("size.rows=" + rows + " values.x=offset-100 seed=11752344439373122938"));
    Ensemble ensemble(program, feeds, {}, 285);
    const auto judged = ensemble.judge(results_by(program, feeds, *careless({.backwards = true}), {}));
    EXPECT_EQ(judged.outcome, Outcome::held) << rows << " T " << judged.t.value_or(0);
    return ensemble.t_limit();
  };
  EXPECT_GT(limit("2"), 1.2 * failing_t);
  EXPECT_LT(limit("400"), 1.2 * failing_t);
}

// The spread on numbers of one step each: v by hand from the members' own results.
TEST(Ensemble, SpreadsByTheFormula) {
  File f;
  f.inputs = {{"x", Type::f32, {2}}};
  f("Mul", {"x", f.scalar(round_to(Format::f32, 1.1))}, {}, "y");
  f.outputs = {"y"};
  const Program program(read_model(f.bytes(), "m"));
  const Feeds feeds{{"x", floats(Type::f32, {2}, {3, 1})}};
  Ensemble ensemble(program, feeds, {}, 4);
  const Spread spread = ensemble.spreads(few_members)[0];
  const double r[] = {3 * round_to(Format::f32, 1.1), round_to(Format::f32, 1.1)};
  EXPECT_EQ(spread.reference.floats, std::vector<double>(r, r + 2));
  double v[2];
  for (std::size_t i = 0; i < 2; ++i) {
    v[i] = std::pow(round_to(Format::f32, r[i]) - r[i], 2);
    for (std::uint64_t m = 0; m < few_members; ++m) {
      const auto got = results_by(program, feeds, *member(extend(4, m)), {})[0].floats[i];
      v[i] += std::pow(got - r[i], 2) / few_members;
    }
  }
  for (std::size_t i = 0; i < 2; ++i)  // fewer than 4 elements are all pooled
    EXPECT_NEAR(spread.deviation[i] / std::sqrt(v[i] + (v[0] + v[1]) / 2 / 16 + std::pow(0x1p-24 * r[i], 2) / 3), 1,
                1e-12);
}

// An element is undetermined if the reference or a member is not finite; a result that is undetermined everywhere is
// vacuous.
TEST(Ensemble, LeavesOverflowUndetermined) {
  File f;
  f.inputs = {{"x", Type::f32, {"n"}}};
  f("Mul", {"x", "x"}, {}, "y");
  f.outputs = {"y"};
  const Program program(read_model(f.bytes(), "m"));
  const auto judged = [&program](std::vector<double> x, std::vector<double> y) {
    const auto n = static_cast<Index>(x.size());
    Ensemble ensemble(program, {{"x", floats(Type::f32, {n}, std::move(x))}}, {}, 1);
    return ensemble.judge({floats(Type::f32, {n}, std::move(y))});
  };
  EXPECT_EQ(judged({3}, {9}).outcome, Outcome::held);
  EXPECT_EQ(judged({0x1p100}, {inf}).outcome, Outcome::vacuous);
  EXPECT_EQ(judged({0x1p100}, {inf}).undetermined, 1);
  EXPECT_EQ(judged({NAN}, {1}).outcome, Outcome::vacuous);
  EXPECT_EQ(judged({}, {}).outcome, Outcome::vacuous);
}

// Integers that hang on computed floats are judged where all members agree.
TEST(Ensemble, JudgesIntegersWhereMembersAgree) {
  File f;
  f.inputs = {{"x", Type::f32, {3}}};
  // 3 x / 3 < 1 for x = 1 hangs on rounding; for 0.5 and 2 it does not.
  const auto third = f("Div", {"x", f.scalar(3)});
  f("Less", {f("Mul", {third, f.scalar(3)}), f.scalar(1)}, {}, "y");
  f.outputs = {"y"};
  const Program program(read_model(f.bytes(), "m"));
  Ensemble ensemble(program, {{"x", floats(Type::f32, {3}, {0.5, 1, 2})}}, {}, 1);
  EXPECT_EQ(ensemble.judge({integers(Type::boolean, {3}, {1, 0, 0})}).outcome, Outcome::held);
  EXPECT_EQ(ensemble.judge({integers(Type::boolean, {3}, {1, 1, 0})}).outcome, Outcome::held);
  EXPECT_EQ(ensemble.judge({integers(Type::boolean, {3}, {0, 0, 0})}).outcome, Outcome::failed);
  EXPECT_EQ(ensemble.judge({integers(Type::boolean, {3}, {1, 0, 1})}).outcome, Outcome::failed);
}

// A float that no number of an integer type is near becomes any: ONNX leaves it undefined. Runtimes saturate, or give the
// least number, or the lowest bits. Elements beside it are judged.
TEST(Ensemble, LeavesCastsPastTheRangeUndetermined) {
  File f;
  f.inputs = {{"x", Type::f32, {4}}};
  f("Cast", {"x"}, {test::attr("to", std::int64_t{3})}, "y");     // int8
  f("Cast", {"y"}, {test::attr("to", std::int64_t{1})}, "back");  // float32
  f.outputs = {"y", "back"};
  const Program program(read_model(f.bytes(), "m"));
  Ensemble ensemble(program, {{"x", floats(Type::f32, {4}, {127.9, -128.9, 128, NAN})}}, {}, 1);
  const auto judged = [&](std::vector<std::int64_t> y) {
    std::vector<double> back(y.begin(), y.end());
    return ensemble.judge({integers(Type::i8, {4}, std::move(y)), floats(Type::f32, {4}, std::move(back))});
  };
  EXPECT_EQ(judged({127, -128, 127, 0}).outcome, Outcome::held);
  EXPECT_EQ(judged({127, -128, 127, 0}).undetermined, 2);
  EXPECT_EQ(judged({127, -128, -128, -128}).outcome, Outcome::held);
  EXPECT_EQ(judged({-128, -128, 127, 0}).outcome, Outcome::failed);
  EXPECT_EQ(judged({127, -127, 127, 0}).outcome, Outcome::failed);
}

// A result that differs by far less than it may is told as that: 1e4 - 1e4 + x loses x.
TEST(Ensemble, CallsAWideResultVacuous) {
  File f;
  f.inputs = {{"x", Type::f32, {4}}};
  const auto large = f.scalar(1e8);
  f("Sub", {f("Add", {"x", large}), large}, {}, "y");
  f.outputs = {"y"};
  const Program program(read_model(f.bytes(), "m"));
  Ensemble ensemble(program, {{"x", floats(Type::f32, {4}, {0.1, 0.2, 0.3, 0.4})}}, {}, 1);
  const auto judged = ensemble.judge({floats(Type::f32, {4}, {0, 0, 0, 0})});
  EXPECT_TRUE(ensemble.spreads(few_members)[0].wide);
  EXPECT_EQ(judged.outcome, Outcome::vacuous);
  EXPECT_EQ(ensemble.judge({floats(Type::f32, {4}, {0, 0, 0, 1e4})}).outcome, Outcome::failed);
}

TEST(Ensemble, KnowsItsPrecisions) {
  EXPECT_EQ(precision_from_text("literal").computed(Format::f16), Format::f16);
  EXPECT_EQ(precision_from_text("inner=f32").computed(Format::f16), Format::f32);
  EXPECT_EQ(precision_from_text("inner=f32").result(Format::f16), Format::f16);
  EXPECT_EQ(precision_from_text("run=bf16").computed(Format::f32), Format::bf16);
  EXPECT_EQ(precision_from_text("run=bf16").result(Format::f32), Format::bf16);
  EXPECT_EQ(precision_from_text("run=bf16").computed(Format::f64), Format::f64);
  EXPECT_THROW(precision_from_text("exact"), Error);
  EXPECT_TRUE(precision_from_text("literal").that_store_less().empty());
  EXPECT_TRUE(precision_from_text("inner=f32").that_store_less().empty());
}

class Conforming : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, Conforming, ::testing::ValuesIn(test::models()), [](const auto& model) {
  std::string name = model.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

constexpr std::uint64_t problems = 40;
constexpr Index most = 512;  // elements of an input

TEST_P(Conforming, RuntimesAreNotBlamed) {
  const Program program(test::model(GetParam()));
  const Family family(program);
  int held = 0, runs = 0;
  for (std::uint64_t i = 0; i < problems; ++i) {
    const Feeds feeds = family.feeds(family.draw(7, i, most));
    Ensemble ensemble(program, feeds, {}, i);
    for (const auto& [kind, how] : test::runtimes()) {
      const auto judged = ensemble.judge(results_by(program, feeds, *careless(how), {}));
      EXPECT_NE(judged.outcome, Outcome::failed)
          << kind << " problem " << i << " z " << judged.z << " T " << judged.t.value_or(0);
      held += judged.outcome == Outcome::held;
      ++runs;
    }
  }
  EXPECT_GE(held, runs * 95 / 100);
}

// Results that few members accept many would not fail: their s is at least half of that of few, also where results of
// 16 bits are stored otherwise, which many alone look at.
TEST_P(Conforming, ManyMembersAreAtLeastHalfAsWide) {
  const Program program(test::model(GetParam()));
  const Family family(program);
  for (const char* const name : {"literal", "run=bf16"})
    for (std::uint64_t i = 0; i < problems; ++i) {
      Ensemble ensemble(program, family.feeds(family.draw(15, i, 64)), precision_from_text(name), i);
      const std::vector<Spread> few = ensemble.spreads(few_members), many = ensemble.spreads(many_members);
      for (std::size_t o = 0; o < few.size(); ++o)
        for (std::size_t k = 0; k < few[o].deviation.size(); ++k)
          EXPECT_FALSE(many[o].deviation[k] < few[o].deviation[k] / most_wider * (1 - 1e-12)) << name << ' ' << i;
    }
}

// A runtime that computes in a format which it documents is judged by that.
TEST_P(Conforming, RuntimesAreJudgedByTheFormatTheyPromise) {
  const Program program(test::model(GetParam()));
  const Family family(program);
  const Precision bf16 = precision_from_text("run=bf16"), inner = precision_from_text("inner=f32");
  int held = 0, blamed = 0;
  for (std::uint64_t i = 0; i < problems; ++i) {
    const Feeds feeds = family.feeds(family.draw(8, i, most));
    Ensemble own(program, feeds, bf16, i), literal(program, feeds, {}, i), inside(program, feeds, inner, i);
    auto out = results_by(program, feeds, *careless({.partial_sums = 8}), bf16);
    const auto judged = own.judge(out);
    EXPECT_NE(judged.outcome, Outcome::failed) << "problem " << i << " z " << judged.z << " T " << judged.t.value_or(0);
    held += judged.outcome == Outcome::held;
    blamed += literal.judge(out).outcome == Outcome::failed;
    const auto wide = inside.judge(results_by(program, feeds, *careless({.partial_sums = 8}), inner));
    EXPECT_NE(wide.outcome, Outcome::failed) << "inner=f32, problem " << i << " z " << wide.z;
  }
  EXPECT_GT(held, static_cast<int>(problems) / 2);
  EXPECT_GT(blamed, GetParam() == "attention-f16" ? 0 : static_cast<int>(problems) / 3);
}

// A promise of 16 bits permits to store less in them: inputs, weights or both, and float32 between. Masks that saturate
// keep scores apart which they drown in float64, and a softmax of large scores picks another key.
TEST_P(Conforming, RuntimesThatStoreLessAreNotBlamed) {
  const Program program(test::model(GetParam()));
  const Family family(program);
  int faults = 0, found = 0;
  for (const char* const name : {"run=bf16", "run=f16"}) {
    const Precision precision = precision_from_text(name);
    ASSERT_EQ(precision.that_store_less().size(), 3u);
    for (std::uint64_t i = 0; i < problems; i += GetParam() == "encoder" ? 4 : 1) {
      const Feeds feeds = family.feeds(family.draw(12, i, most));
      Ensemble ensemble(program, feeds, precision, i);
      for (const Precision& less : precision.that_store_less())
        for (const Careless& how : {Careless{}, Careless{.partial_sums = 16, .ulps = 1}}) {
          const auto judged = ensemble.judge(results_by(program, feeds, *careless(how), less));
          EXPECT_NE(judged.outcome, Outcome::failed)
              << less.name << " problem " << i << " z " << judged.z << " T " << judged.t.value_or(0);
        }
      for (const auto& fault : test::faults()) {
        const auto planted = fault.name == "batch-leak" || fault.name == "last-key-dropped"
                                 ? fault.plant(program.model())
                                 : std::nullopt;
        if (!planted) continue;
        const Precision less = precision.that_store_less().back();
        const auto out = results_by(Program(*planted), feeds, *nearest(), less),
                   sound = results_by(program, feeds, *nearest(), less);
        if (out[0].floats == sound[0].floats) continue;
        ++faults;
        found += ensemble.judge(out).outcome == Outcome::failed;
      }
    }
  }
  EXPECT_GE(found, faults * 7 / 10) << faults;
}

// Least shares of the problems that a fault changes in which it is found; those that are missed (keys that are all one,
// addends of 1e4 beside small scores, values of one offset) lie within what the graph itself
// loses, most of all in 16 bits (docs/graphs.md section 4).
TEST_P(Conforming, FaultsAreFound) {
  const std::string name = GetParam();
  const Program program(test::model(name));
  const Family family(program);
  const std::map<std::string, double> least{{"scale-rounded", name == "attention-f16" ? 0.0 : 0.5},
                                            {"one-pass-variance", name == "encoder" ? 0.0 : 0.1}};
  const double usual = name == "attention-f16" ? 0.5 : 0.7;
  constexpr int enough = 24;
  int asked = 0;
  for (const auto& fault : test::faults()) {
    const auto planted = fault.plant(program.model());
    if (!planted) continue;
    const Program faulty(*planted);
    ++asked;
    int changed = 0, found = 0;
    for (std::uint64_t i = 0; i < 5 * problems && changed < enough; ++i) {
      const Feeds feeds = family.feeds(family.draw(9, i, most));
      const auto out = results_by(faulty, feeds, *nearest(), {}), sound = results_by(program, feeds, *nearest(), {});
      bool differs = false;
      for (std::size_t o = 0; o < out.size(); ++o) differs = differs || out[o].floats != sound[o].floats;
      if (!differs) continue;
      ++changed;
      Ensemble ensemble(program, feeds, {}, i);
      found += ensemble.judge(out).outcome == Outcome::failed;
    }
    const auto share = least.find(fault.name);
    EXPECT_GT(changed, 15) << fault.name;
    EXPECT_GE(found, changed * (share == least.end() ? usual : share->second))
        << fault.name << ": " << found << " of " << changed;
  }
  EXPECT_GT(asked, 0);
}

// Zeros, and numbers of f64 whose deviations have squares of 0, have a deviation like any other.
TEST(Deviation, IsThereForEveryNumberOfF64) {
  test::File f;
  f.inputs = {{"x", Type::f64, {"n", 5}}, {"w", Type::f64, {5, 5}}};
  f("MatMul", {"x", "w"}, {}, "y");
  f.outputs = {"y"};
  const Program program(read_model(f.bytes(), "m"));
  const std::vector<double> rows[] = {{0, 0, 0, 0, 0},
                                      {1e-200, -3e-200, 7e-190, 0, 1e-195},
                                      {1e140, -3e140, 7e130, 0, 1e135},
                                      {1, 1e-200, 0.3, -0.1, 1e-300}};
  std::vector<double> w;
  for (int i = 0; i < 25; ++i) w.push_back(0.1 + 0.37 * ((i * 7) % 11));
  for (const auto& row : rows) {
    const Feeds feeds{{"x", floats(Type::f64, {1, 5}, row)}, {"w", floats(Type::f64, {5, 5}, w)}};
    Ensemble ensemble(program, feeds, {}, 5);
    const Spread& spread = ensemble.spreads(many_members).at(0);
    for (std::size_t i = 0; i < 5; ++i) {
      const double r = spread.reference.floats[i], s = spread.deviation[i];
      EXPECT_TRUE(s > 0 && std::isfinite(s)) << r << " " << s;
      EXPECT_LE(s, std::max(std::fabs(r) * 1e-13, 1e-159)) << r << " " << s;  // sums below 1e-145 are held to that
    }
    for (const auto& [name, how] : test::runtimes()) {
      const auto results = results_by(program, feeds, *careless(how), {});
      const Judgement judged = ensemble.judge(results);
      EXPECT_NE(judged.outcome, Judgement::Outcome::failed) << name << " " << judged.z;
    }
    auto off = results_by(program, feeds, *nearest(), {});
    off[0].floats[2] = off[0].floats[2] == 0
                           ? 1e-150
                           : off[0].floats[2] * (1 + 1e-9) + (std::fabs(off[0].floats[2]) < 1e-150 ? 1e-150 : 0);
    EXPECT_EQ(ensemble.judge(off).outcome, Judgement::Outcome::failed);
  }
}

}  // namespace
}  // namespace attest::graph
