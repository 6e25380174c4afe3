#include "graph/problem.hpp"
#include "graph/constraints.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "graph/emulated.hpp"
#include "graph/read.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/onnx_file.hpp"

namespace attest::graph {
namespace {

using test::attr;
using test::File;

Program program_of(const File& file) { return Program(read_model(file.bytes(), "m")); }

std::string said(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::map<std::string, Use> uses_of(const Program& program) {
  std::map<std::string, Use> uses;
  const auto all = uses_of_inputs(program);
  for (std::size_t i = 0; i < all.size(); ++i) uses[program.model().inputs[i].name] = all[i];
  return uses;
}

TEST(Roles, OfTheModels) {
  const Program scores(test::model("attention-scores")), both(test::model("attention-both")),
      encoder(test::model("encoder"));
  EXPECT_EQ(uses_of(scores).at("q").role, Role::floats);
  EXPECT_EQ(uses_of(scores).at("v").role, Role::floats);
  EXPECT_EQ(uses_of(scores).at("mask").role, Role::flags);
  EXPECT_EQ(uses_of(both).at("mask").role, Role::addend);
  EXPECT_EQ(uses_of(both).at("k").role, Role::floats);
  EXPECT_EQ(uses_of(encoder).at("mask").role, Role::flags);
  EXPECT_EQ(uses_of(encoder).at("ids").role, Role::ids);
  EXPECT_EQ(uses_of(encoder).at("ids").count, 24);
}

// x [n, 3] looked up, masked, cut off by lengths in several ways.
TEST(Roles, AreFollowedThroughWhatMovesNumbers) {
  File f;
  f.inputs = {{"ids", Type::i64, {"n"}},     {"kinds", Type::i32, {"n"}},   {"mask", Type::i64, {"n"}},
              {"lengths", Type::i32, {"n"}}, {"bias", Type::f32, {"n", 4}}, {"x", Type::f32, {"n", 4}}};
  const auto table = f.constant(zeros(Type::f32, {7, 4})), small = f.constant(zeros(Type::f32, {2, 4}));
  const auto last = f.axes({1});
  const auto shifted = f("Add", {f("Reshape", {"ids", f.axes({-1})}), f.constant(integers(Type::i64, {}, {0}))});
  const auto a = f("Gather", {table, shifted}),
             b = f("Gather", {small, f("Cast", {"kinds"}, {attr("to", std::int64_t{7})})});
  const auto kept = f("Sub", {f.constant(integers(Type::i64, {}, {1})), "mask"});
  const auto bias = f("Unsqueeze", {f("Cast", {kept}, {attr("to", std::int64_t{1})}), last});
  const auto positions = f.constant(integers(Type::i32, {4}, {0, 1, 2, 3}));
  const auto inside = f("Less", {positions, f("Unsqueeze", {"lengths", last})});
  const auto scores = f("Where", {inside, f("Add", {f("Add", {"x", a}), b}), f.scalar(-1e4)});
  f("Softmax", {f("Add", {f("Mul", {scores, bias}), f("Identity", {"bias"})})}, {}, "y");
  f.outputs = {"y"};
  const auto uses = uses_of(program_of(f));
  EXPECT_EQ(uses.at("ids").role, Role::ids);
  EXPECT_EQ(uses.at("ids").count, 7);
  EXPECT_EQ(uses.at("kinds").count, 2);
  EXPECT_EQ(uses.at("mask").role, Role::flags);
  EXPECT_EQ(uses.at("lengths").role, Role::lengths);
  EXPECT_EQ(uses.at("bias").role, Role::addend);
  EXPECT_EQ(uses.at("x").role, Role::floats) << "a product stands between";
}

// Integers that nothing but arithmetic reads may have any number, but for 0 where something is divided by them.
TEST(Roles, IntegersThatAreComputedWithAreNumbers) {
  File f;
  f.inputs = {{"n", Type::i32, {"rows"}}, {"by", Type::i32, {"rows"}}, {"bytes", Type::u8, {"rows"}}};
  f("Mul", {"n", f("Div", {f.constant(integers(Type::i32, {}, {7})), f("Abs", {"by"})})}, {}, "y");
  f("DequantizeLinear", {"bytes", f.constant(floats(Type::f32, {}, {0.5}))}, {}, "z");
  f.outputs = {"y", "z"};
  const Program program = program_of(f);
  const Family family(program);
  for (const Use& use : family.uses()) EXPECT_EQ(use.role, Role::numbers);
  EXPECT_FALSE(family.uses()[0].divisor);
  EXPECT_TRUE(family.uses()[1].divisor);
  for (const std::string regime : {"integers", "constant", "wide"}) {
    const Feeds feeds = family.feeds(problem_from_text("size.rows=500 seed=3 values.n=" + regime +
                                                       " values.by=" + regime + " values.bytes=" + regime));
    const auto& n = feeds.at("n").integers;
    const auto [least, most] = std::ranges::minmax(n);
    EXPECT_EQ(least == most, regime == "constant");
    EXPECT_EQ(most > 4, regime == "wide");
    EXPECT_EQ(least < 0, regime != "constant" || most < 0);
    EXPECT_EQ(std::ranges::count(feeds.at("by").integers, 0), 0);
    for (const std::int64_t one : feeds.at("bytes").integers) EXPECT_TRUE(one >= 0 && one <= 255);
    EXPECT_NO_THROW((void)program.run(feeds));
  }
}

TEST(Roles, RefuseIntegersThatTheGraphDoesNotExplain) {
  const auto refusal = [](const std::function<void(File&)>& build) {
    File f;
    f.inputs = {{"n", Type::i64, {1}}, {"x", Type::f32, {"rows", 2}}};
    build(f);
    f.outputs = {f.nodes.back().outputs.front()};
    return said([&f] { (void)uses_of_inputs(program_of(f)); });
  };
  EXPECT_NE(refusal([](File& f) {
              f("Reshape", {"x", "n"});
            }).find("input 'n' (int64) sets shapes"),
            std::string::npos);
  EXPECT_NE(refusal([](File& f) {
              f("Gather", {"x", "n"});
            }).find("input 'n' (int64) looks up 'x'"),
            std::string::npos);
  EXPECT_NE(refusal([](File& f) { f("Shape", {"n"}); }).find("does not show what its numbers may be"),
            std::string::npos);
  EXPECT_NE(refusal([](File& f) {
              f("Gather", {f.constant(zeros(Type::f32, {0, 2})), "n"});
            }).find("without rows"),
            std::string::npos);
}

TEST(Problem, ComesBackFromItsText) {
  for (const std::string& name : test::models()) {
    const Program program(test::model(name));
    const Family family(program);
    for (std::uint64_t i = 0; i < 50; ++i) {
      const Problem problem = family.draw(3, i);
      EXPECT_EQ(problem_from_text(to_text(problem)), problem);
      family.check(problem);
    }
  }
  Problem odd;
  odd.sizes["a b=%\n\xff"] = 3;
  odd.values["input.1"] = Regime::mask_lowest;
  odd.seed = ~std::uint64_t{0};
  EXPECT_EQ(to_text(odd), "size.a%20b%3D%25%0A%FF=3 values.input.1=mask-lowest seed=18446744073709551615");
  EXPECT_EQ(problem_from_text(to_text(odd)), odd);
}

TEST(Problem, RefusesOtherText) {
  for (const char* const line : {"size.n", "size.n=0", "size.n=65537", "size.n=1x", "size.n=", "size.=1 size.=1",
                                 "values.x=odd", "seed=-1", "seed=18446744073709551616", "seed=1 seed=1", "n=1",
                                 "size.%2=1", "size.%zz=1", "size.%61=1", "=", "size.a/b=1"})
    EXPECT_NE(said([line] { problem_from_text(line); }).find("in a problem"), std::string::npos) << line;
}

TEST(Problem, IsCheckedAgainstItsModel) {
  const Program program(test::model("encoder"));
  const Family family(program);
  const Problem sound = family.draw(1, 1);
  const auto refusal = [&](const std::function<void(Problem&)>& change) {
    Problem problem = sound;
    change(problem);
    return said([&] { (void)family.feeds(problem); });
  };
  EXPECT_EQ(refusal([](Problem&) {}), "");
  EXPECT_EQ(refusal([](Problem& p) { p.sizes.erase("batch"); }), "the problem has no size of the axis 'batch'");
  EXPECT_EQ(refusal([](Problem& p) { p.sizes["keys"] = 1; }), "the model has no open axis 'keys'");
  EXPECT_EQ(refusal([](Problem& p) { p.sizes["batch"] = 0; }), "the axis 'batch' is 1 to 65536 long, not 0");
  EXPECT_EQ(refusal([](Problem& p) { p.values.erase("ids"); }), "the problem does not say how 'ids' is made");
  EXPECT_EQ(refusal([](Problem& p) { p.values["ids"] = Regime::wide; }),
            "'ids' cannot be made as wide: any, same, ends");
  EXPECT_EQ(refusal([](Problem& p) { p.values["q"] = Regime::wide; }), "the model has no input 'q'");
}

// Every regime of every role comes up, sizes of 1 and of equal axes, edges and their neighbours; no input is too large.
TEST(Problem, DrawsCoverWhatThereIs) {
  std::set<Regime> seen;
  std::map<Index, int> batches;
  int alike = 0;
  for (const std::string& name : test::models()) {
    const Program program(test::model(name));
    const Family family(program);
    for (std::uint64_t i = 0; i < 400; ++i) {
      const Problem problem = family.draw(5, i, 1024);
      for (const auto& [input, regime] : problem.values) seen.insert(regime);
      for (const auto& [input, x] : family.feeds(problem)) EXPECT_LE(x.size(), 1024) << to_text(problem);
      if (name == "encoder") {
        ++batches[problem.sizes.at("batch")];
        alike += problem.sizes.at("batch") == problem.sizes.at("length");
      }
    }
  }
  for (int regime = 0; regime <= static_cast<int>(Regime::all); ++regime)
    EXPECT_EQ(seen.count(static_cast<Regime>(regime)), 1u) << name(static_cast<Regime>(regime));
  for (const Regime regime : {Regime::any, Regime::same, Regime::ends})
    EXPECT_EQ(seen.count(regime), 1u) << name(regime);
  for (const Index edge : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65}) EXPECT_GT(batches[edge], 0) << edge;
  EXPECT_GT(alike, 20);
}

// A problem with shorter axes is the corner of one with longer ones.
TEST(Problem, NumbersStayWhereAnAxisShrinks) {
  const Program program(test::model("attention-queries"));
  const Family family(program);
  for (std::uint64_t i = 0; i < 40; ++i) {
    Problem problem = family.draw(6, i);
    for (auto& [axis, size] : problem.sizes) size = std::min<Index>(size, 6) + 1;
    const Array large = family.feeds(problem).at("v");
    for (auto& [axis, size] : problem.sizes) size -= 1;
    const Array small = family.feeds(problem).at("v");
    Index at[4];
    for (Index flat = 0; flat < small.size(); ++flat) {
      Index rest = flat, into = 0;
      for (int k = 3; k >= 0; --k) {
        at[k] = rest % small.shape[static_cast<std::size_t>(k)];
        rest /= small.shape[static_cast<std::size_t>(k)];
      }
      for (std::size_t k = 0; k < 4; ++k) into = into * large.shape[k] + at[k];
      ASSERT_EQ(small.floats[static_cast<std::size_t>(flat)], large.floats[static_cast<std::size_t>(into)])
          << to_text(problem);
    }
  }
}

TEST(Problem, NumbersAreWhatTheRegimeSays) {
  File f;
  f.inputs = {{"x", Type::f16, {"n"}}, {"mask", Type::boolean, {"n"}}, {"ids", Type::i64, {"n"}}};
  f("Gather", {f.constant(zeros(Type::f16, {5})), "ids"}, {}, "rows");
  f("Where", {"mask", "x", "rows"}, {}, "y");
  f.outputs = {"y"};
  const Program program = program_of(f);
  const Family family(program);
  const auto made = [&](const char* x, const char* mask, const char* ids) {
    return family.feeds(problem_from_text("size.n=4000 seed=3 values.x=" + std::string(x) + " values.mask=" + mask +
                                          " values.ids=" + ids));
  };
  const auto mean = [](const std::vector<double>& all) {
    double sum = 0;
    for (const double v : all) sum += v;
    return sum / static_cast<double>(all.size());
  };
  EXPECT_NEAR(mean(made("normal", "all", "any").at("x").floats), 0, 0.1);
  EXPECT_NEAR(mean(made("offset-100", "all", "any").at("x").floats), 100, 0.1);
  EXPECT_NEAR(mean(made("far", "all", "any").at("x").floats), 500, 0.1);
  EXPECT_NEAR(mean(made("uniform", "all", "any").at("x").floats), 0.5, 0.05);
  const auto floats = made("sparse", "half", "ends").at("x").floats;
  EXPECT_NEAR(static_cast<double>(std::count(floats.begin(), floats.end(), 0.0)), 3200, 150);
  for (const double v : floats) EXPECT_EQ(v, round_to(Format::f16, v));
  const auto count = [&](const char* mask) {
    const auto flags = made("normal", mask, "any").at("mask").integers;
    return std::count(flags.begin(), flags.end(), 1);
  };
  EXPECT_EQ(count("all"), 4000);
  EXPECT_NEAR(static_cast<double>(count("most")), 3600, 100);
  EXPECT_NEAR(static_cast<double>(count("few")), 400, 100);
  const auto prefix = made("normal", "prefix", "any").at("mask").integers;
  EXPECT_TRUE(std::is_sorted(prefix.rbegin(), prefix.rend()));
  EXPECT_EQ(prefix.front(), 1);
  const auto any = made("normal", "all", "any").at("ids").integers,
             ends = made("normal", "all", "ends").at("ids").integers;
  EXPECT_EQ(std::set<std::int64_t>(any.begin(), any.end()), (std::set<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(std::set<std::int64_t>(ends.begin(), ends.end()), (std::set<std::int64_t>{0, 4}));
}

TEST(Problem, LengthsEndWithTheLongestAxis) {
  File f;
  f.inputs = {{"x", Type::f32, {"batch", "keys"}}, {"lengths", Type::i32, {"batch", 1}}};
  const auto positions = f("Range", {f.constant(integers(Type::i32, {}, {0})), f.constant(integers(Type::i32, {}, {9})),
                                     f.constant(integers(Type::i32, {}, {1}))});
  f("Where", {f("Less", {positions, "lengths"}), "x", f.scalar(0)}, {}, "y");
  f.outputs = {"y"};
  const Program program = program_of(f);
  const Family family(program);
  const auto lengths = [&](const char* regime) {
    const auto feeds = family.feeds(
        problem_from_text("size.batch=60 size.keys=9 values.x=normal seed=1 values.lengths=" + std::string(regime)));
    return std::set<std::int64_t>(feeds.at("lengths").integers.begin(), feeds.at("lengths").integers.end());
  };
  EXPECT_EQ(lengths("longest"), std::set<std::int64_t>{60});
  EXPECT_GE(*lengths("long-or-short").begin(), 1);
  EXPECT_EQ(*lengths("long-or-short").rbegin(), 60);
  EXPECT_GT(lengths("long-or-short").size(), 10u);
}

// The same on every machine and by every compiler.
TEST(Problem, IsTheSameEverywhere) {
  std::uint64_t digest = 0;
  for (const std::string& name : test::models()) {
    const Program program(test::model(name));
    const Family family(program);
    for (std::uint64_t i = 0; i < 20; ++i) {
      const Problem problem = family.draw(11, i, 512);
      for (const char c : to_text(problem)) digest = extend(digest, static_cast<unsigned char>(c));
      for (const auto& [input, x] : family.feeds(problem)) {
        for (const double v : x.floats) digest = extend(digest, std::bit_cast<std::uint64_t>(v));
        for (const std::int64_t v : x.integers) digest = extend(digest, static_cast<std::uint64_t>(v));
      }
    }
  }
  EXPECT_EQ(digest, 1982356157818387055u);
}

// ---- constraints

Constraints constraints(const std::vector<std::pair<std::string, std::string>>& said) {
  Constraints constraints;
  for (const auto& [key, value] : said) constrain(constraints, key, value);
  return constraints;
}

TEST(Constrained, DrawsWhatIsPermitted) {
  const Program program(test::model("encoder"));
  const Family free(program);
  const Family family(program,
                      constraints({{"size.batch", "4"}, {"size.length", "2..3, 40"}, {"values.mask", "prefix,all"}}));
  std::set<Index> lengths;
  std::set<Regime> masks;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Problem problem = family.draw(1, i);
    EXPECT_EQ(problem.sizes.at("batch"), 4);
    EXPECT_TRUE(family.permits(problem));
    EXPECT_EQ(problem.seed, free.draw(1, i).seed);
    lengths.insert(problem.sizes.at("length"));
    masks.insert(problem.values.at("mask"));
    for (const Problem& simpler : family.simpler(problem)) EXPECT_TRUE(family.permits(simpler)) << to_text(simpler);
  }
  EXPECT_EQ(lengths, (std::set<Index>{2, 3, 40}));
  EXPECT_EQ(masks, (std::set<Regime>{Regime::prefix, Regime::all}));
  Problem other = free.draw(1, 1);
  other.sizes.at("batch") = 5;
  EXPECT_FALSE(family.permits(other));
  family.check(other);  // a problem that is given is asked as it stands
}

// A length that does not fit in the memory of a problem and cannot be cut is drawn as it is.
TEST(Constrained, KeepsLengthsThatCannotBeCut) {
  const Program program(test::model("encoder"));
  const Family family(program, constraints({{"size.batch", "64"}, {"size.length", "512"}}));
  EXPECT_EQ(family.draw(1, 1, 128).sizes.at("length"), 512);
}

TEST(Constrained, SaysWhatTheGraphDoesNotShow) {
  test::File f;
  f.inputs = {{"kind", Type::i64, {"n"}}};
  f("Mul", {"kind", f.constant(integers(Type::i64, {}, {3}))}, {}, "y");
  f.outputs = {"y"};
  const Program program(read_model(f.bytes(), "m"));
  EXPECT_EQ(Family(program).uses().at(0).role, Role::numbers);
  const Family family(program, constraints({{"role.kind", "ids:2"}}));
  EXPECT_EQ(family.uses().at(0).role, Role::ids);
  const Feeds feeds = family.feeds(problem_from_text("size.n=100 values.kind=any seed=1"));
  for (const std::int64_t one : feeds.at("kind").integers) EXPECT_TRUE(one == 0 || one == 1);
}

TEST(Constrained, RefusesWhatTheModelHasNot) {
  const Program program(test::model("encoder"));
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"size.nope", "3"},
                                                                                   {"values.nope", "all"},
                                                                                   {"values.mask", "normal"},
                                                                                   {"role.nope", "flags"},
                                                                                   {"role.ids", "floats"}})
    EXPECT_THROW(Family(program, constraints({{key, value}})), Error) << key << " " << value;
  Constraints some;
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"size.batch", ""},
                                                                                   {"size.batch", "0"},
                                                                                   {"size.batch", "3..2"},
                                                                                   {"size.batch", "x"},
                                                                                   {"size.batch", "1..99999999"},
                                                                                   {"values.mask", "nope"},
                                                                                   {"values.mask", ""},
                                                                                   {"role.ids", "ids"},
                                                                                   {"role.ids", "ids:0"},
                                                                                   {"batch", "3"},
                                                                                   {"what.x", "3"}})
    EXPECT_THROW(constrain(some, key, value), Error) << key << " " << value;
}

TEST(Problem, HasALongSequenceWhereThatIsAskedFor) {
  const Program program(test::model("encoder")), attention(test::model("attention-scores"));
  Constraints constraints;
  constrain(constraints, "size.length", "1..24");
  const Family encoder(program), scores(attention), constrained(program, constraints);
  std::set<Index> lengths, batches;
  int keys_alone = 0, queries_alone = 0;
  for (std::uint64_t number = 0; number < 400; ++number) {
    const Problem problem = encoder.draw(3, number, 4, 64);  // a length past the 4 elements
    EXPECT_GE(problem.sizes.at("length"), 64);
    EXPECT_LT(problem.sizes.at("length"), 128);
    EXPECT_EQ(problem.sizes.at("batch"), 1);
    lengths.insert(problem.sizes.at("length"));
    batches.insert(encoder.draw(3, number, 1 << 14, 64).sizes.at("batch"));
    EXPECT_LE(constrained.draw(3, number, 4, 64).sizes.at("length"), 24);
    const Problem two = scores.draw(3, number, 512, 16);
    const Index keys = two.sizes.at("keys"), queries = two.sizes.at("queries");
    EXPECT_GE(std::max(keys, queries), 16);
    keys_alone += queries == 1 && keys >= 16;
    queries_alone += keys == 1 && queries >= 16;
  }
  EXPECT_GT(lengths.size(), 20u);
  EXPECT_GT(batches.size(), 20u);
  EXPECT_GT(keys_alone, 5);
  EXPECT_GT(queries_alone, 5);
}

// ids [batch, length], looked up, and x [batch, length, 2]; shape sets lengths, of which the graph shows nothing.
class OfOnesOwn : public ::testing::Test {
 protected:
  static File file() {
    File f;
    f.inputs = {
        {"ids", Type::i64, {"batch", "length"}}, {"x", Type::f32, {"batch", "length", 2}}, {"shape", Type::i64, {1}}};
    const auto sum = f("Add", {f("Gather", {f.constant(zeros(Type::f32, {90, 2})), "ids"}), "x"});
    f("Reshape", {sum, "shape"}, {}, "y");
    f.outputs = {"y"};
    return f;
  }
  static Feeds set(Index batch, Index length, double first) {
    Feeds feeds;
    std::vector<std::int64_t> ids;
    std::vector<double> x;
    for (Index i = 0; i < batch * length; ++i) ids.push_back(10 + i);
    for (Index i = 0; i < batch * length * 2; ++i) x.push_back(first + static_cast<double>(i));
    feeds.emplace("ids", integers(Type::i64, {batch, length}, std::move(ids)));
    feeds.emplace("x", floats(Type::f32, {batch, length, 2}, std::move(x)));
    feeds.emplace("shape", integers(Type::i64, {1}, {-1}));
    return feeds;
  }
  OfOnesOwn() {
    constraints.given = std::make_shared<const std::vector<Feeds>>(std::vector{set(2, 3, 1), set(1, 30, 100)});
  }
  Program program = program_of(file());
  Constraints constraints;
};

TEST_F(OfOnesOwn, ComeFirstAsTheyAreAndAllElseIsMadeOfThem) {
  EXPECT_THROW(Family(program, Constraints{}), Error);
  const Family family(program, constraints);
  for (const std::size_t n : {0u, 1u}) {
    const Problem first = family.draw(7, n, 4);  // larger than 4 elements
    EXPECT_EQ(first.given, static_cast<Index>(n));
    const Feeds feeds = family.feeds(first), &own = (*constraints.given)[n];
    for (const auto& [name, array] : own) {
      EXPECT_EQ(feeds.at(name).shape, array.shape) << name;
      EXPECT_EQ(feeds.at(name).floats, array.floats) << name;
      EXPECT_EQ(feeds.at(name).integers, array.integers) << name;
    }
  }
  std::set<Index> sets;
  std::set<Regime> seen;
  int as_long = 0;
  for (std::uint64_t number = 2; number < 202; ++number) {
    const Problem problem = family.draw(7, number, 512);
    EXPECT_EQ(problem_from_text(to_text(problem)), problem);
    const auto& x = (*constraints.given)[static_cast<std::size_t>(problem.given)].at("x");
    as_long += problem.sizes.at("batch") == x.shape[0] && problem.sizes.at("length") == x.shape[1];
    sets.insert(problem.given);
    for (const auto& [input, regime] : problem.values) {
      EXPECT_GE(regime, Regime::given);
      seen.insert(regime);
    }
    (void)family.feeds(problem);
  }
  EXPECT_EQ(sets.size(), 2u);
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_GT(as_long, 80);
  EXPECT_LT(as_long, 130);
}

TEST_F(OfOnesOwn, AreCutRepeatedPermutedAndMadeNoisy) {
  const Family family(program, constraints);
  const auto made = [&](const std::string& regime, Index batch, Index length) {
    return family.feeds(problem_from_text(
        fmt::format("size.batch={} size.length={} values.ids={} values.x={} values.shape=given seed=5", batch, length,
                    regime, regime)));
  };
  EXPECT_EQ(made("given", 1, 2).at("ids").integers, (std::vector<std::int64_t>{10, 11}));
  EXPECT_EQ(made("given", 3, 4).at("ids").integers,
            (std::vector<std::int64_t>{10, 11, 12, 10, 13, 14, 15, 13, 10, 11, 12, 10}));
  const Feeds permuted = made("given-permuted", 2, 3);
  std::vector<std::int64_t> ids = permuted.at("ids").integers;
  EXPECT_NE(ids, (*constraints.given)[0].at("ids").integers);
  for (std::size_t i = 0; i < ids.size(); ++i)  // both in the same order, as they have the same axes
    EXPECT_EQ(permuted.at("x").floats[2 * i], 1 + 2 * static_cast<double>(ids[i] - 10));
  std::ranges::sort(ids);
  EXPECT_EQ(ids, (*constraints.given)[0].at("ids").integers);
  // Noise is of the size that it says, and a shorter problem has the same numbers.
  const auto& own = (*constraints.given)[0].at("x").floats;
  for (const auto& [regime, level] : {std::pair("given-noise-1e-3", 1e-3), std::pair("given-noise-1", 1.0)}) {
    const auto x = made(regime, 2, 3).at("x").floats;
    double squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) squares += (x[i] - own[i]) * (x[i] - own[i]) / 12;
    EXPECT_GT(std::sqrt(squares), 0.3 * level * 6.5) << regime;  // 6.5 is the mean magnitude
    EXPECT_LT(std::sqrt(squares), 2.5 * level * 6.5) << regime;
    EXPECT_EQ(made(regime, 1, 1).at("x").floats[0], x[0]);
  }
  // Integers stay among those that were given, and most stay as they are.
  const auto noisy = made("given-noise-1e-1", 40, 40).at("ids").integers,
             plain = made("given", 40, 40).at("ids").integers;
  int changed = 0;
  for (std::size_t i = 0; i < noisy.size(); ++i) {
    EXPECT_GE(noisy[i], 10);
    EXPECT_LE(noisy[i], 15);
    changed += noisy[i] != plain[i];
  }
  EXPECT_GT(changed, 80);
  EXPECT_LT(changed, 350);
}

TEST_F(OfOnesOwn, AreNamedWhereTheyAreNotThere) {
  const Family family(program, constraints);
  EXPECT_NE(said([&] {
              family.check(
                  problem_from_text("size.batch=1 size.length=1 values.ids=any values.x=given "
                                    "values.shape=given given=2 seed=1"));
            }).find("there are 2 inputs of one's own"),
            std::string::npos);
  EXPECT_NE(
      said([&] {
        const Program plain(test::model("encoder"));
        Family(plain).check(problem_from_text("size.batch=1 size.length=1 values.ids=given values.mask=all seed=1"));
      }).find("name these by --inputs"),
      std::string::npos);
}

TEST(Simpler, GoesToOneAndToTheSimplestValues) {
  const Program program(test::model("encoder"));
  const Family family(program);
  const Problem problem = problem_from_text("size.batch=5 size.length=2 values.ids=same values.mask=half seed=3");
  std::set<std::string> texts;
  for (const Problem& one : family.simpler(problem)) texts.insert(to_text(one));
  EXPECT_EQ(texts.size(), 8u);  // batch 1, 3, 4; length 1; ids any; mask all, prefix, most
  Problem least = problem;
  for (;;) {
    const auto simpler = family.simpler(least);
    if (simpler.empty()) break;
    least = simpler.front();
  }
  EXPECT_EQ(to_text(least), "size.batch=1 size.length=1 values.ids=any values.mask=all seed=3");
  // Axes that are equally long, together besides.
  texts.clear();
  for (const Problem& one :
       family.simpler(problem_from_text("size.batch=5 size.length=5 values.ids=any values.mask=all seed=3")))
    texts.insert(std::to_string(one.sizes.at("batch")) + "," + std::to_string(one.sizes.at("length")));
  EXPECT_EQ(texts, (std::set<std::string>{"1,5", "5,1", "1,1", "3,5", "5,3", "3,3", "4,5", "5,4", "4,4"}));
}

}  // namespace
}  // namespace attest::graph
