#include "graph/cut.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "graph/emulated.hpp"
#include "graph/problem.hpp"
#include "graph/raw.hpp"
#include "graph/read.hpp"
#include "graph/write.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/onnx_file.hpp"

namespace attest::graph {
namespace {

std::vector<Array> results(const Program& program, const Feeds& feeds) {
  return results_by(program, feeds, *nearest(), {});
}

void expect_same(const std::vector<Array>& a, const std::vector<Array>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].type, b[i].type) << what;
    EXPECT_EQ(a[i].shape, b[i].shape) << what;
    EXPECT_EQ(raw_bytes(a[i]), raw_bytes(b[i])) << what;
  }
}

// The feeds that `model` takes.
Feeds of(const Model& model, const Feeds& feeds) {
  Feeds taken;
  for (const Input& input : model.inputs) taken.emplace(input.name, feeds.at(input.name));
  return taken;
}

TEST(Written, IsReadAsTheSameGraph) {
  for (const auto& name : test::models()) {
    const Model model = test::model(name);
    const Program program(model), again(read_model(write_model(model), name));
    EXPECT_EQ(again.model().inputs.size(), model.inputs.size());
    EXPECT_EQ(again.model().nodes.size(), model.nodes.size());
    for (std::size_t i = 0; i < model.nodes.size(); ++i) EXPECT_EQ(again.model().nodes[i].name, model.nodes[i].name);
    const Family family(program);
    EXPECT_EQ(Family(again).open_axes(), family.open_axes());
    for (std::uint64_t number = 0; number < 5; ++number) {
      const Feeds feeds = family.feeds(family.draw(1, number));
      expect_same(results(program, feeds), results(again, feeds), name);
    }
  }
}

TEST(Written, HasEveryKindOfAttributeAndType) {
  test::File f;
  f.inputs = {{"x", Type::f16, {"n", 2}}, {"unnamed", Type::boolean, {-1}}, {"scalar", Type::f64, {}}};
  const auto cast = f("Cast", {"x"}, {test::attr("to", std::int64_t{1})});
  f("Gelu", {cast}, {test::attr("approximate", "tanh")}, "y");
  f("Constant", {}, {test::attr("value", integers(Type::i32, {2}, {-1, 7}))}, "c");
  f("Constant", {}, {test::attr("value_ints", std::vector<std::int64_t>{3, 4})}, "list");
  f("Constant", {}, {test::attr("value_float", 0.5)}, "number");
  f.constant(floats(Type::bf16, {1}, {1.5}), "weight");
  f("Identity", {"weight"}, {}, "w");
  f.outputs = {"y", "c", "list", "number", "w"};
  f.opset = 20;
  const Program program(read_model(f.bytes(), "m")), again(read_model(write_model(program.model()), "m"));
  ASSERT_EQ(again.model().inputs.size(), 3u);
  EXPECT_FALSE(again.model().inputs[1].shape.at(0).length);
  EXPECT_TRUE(again.model().inputs[2].shape.empty());
  EXPECT_EQ(again.model().opset, 20);
  const Feeds feeds{{"x", floats(Type::f16, {1, 2}, {0.5, -2})},
                    {"unnamed", integers(Type::boolean, {1}, {1})},
                    {"scalar", floats(Type::f64, {}, {1})}};
  expect_same(results(program, feeds), results(again, feeds), "attributes");
}

TEST(Written, RefusesWhatWasNotRead) {
  Model model = test::model("norm");
  model.nodes[2].attributes.emplace("body", Unread{"a graph"});
  try {
    write_model(model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a graph"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("node"), std::string::npos) << error.what();
  }
}

// Every tensor of a graph by its prefix is what the whole graph has there; and by each single node fed with what
// reaches it.
TEST(Cut, PrefixesAndSegmentsGiveWhatTheWholeHas) {
  for (const auto& name : {"encoder", "attention-both", "attention-f16", "norm"}) {
    const Model model = test::model(name);
    Model open = model;
    open.outputs.clear();
    const auto values = computed_values(model);
    for (const int value : values) open.outputs.push_back({model.values[static_cast<std::size_t>(value)], value, {}});
    const Program program(model), all(open);
    const Family family(program);
    const Feeds feeds = family.feeds(family.draw(3, 7));
    const auto whole = results(all, feeds);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Model cut = prefix(model, values[i]);
      EXPECT_LE(cut.nodes.size(), i + 1);
      const Program from_file(read_model(write_model(cut), "prefix"));
      expect_same(results(from_file, of(cut, feeds)), {whole[i]}, cut.outputs[0].name);

      std::vector<Input> fed;
      Feeds given = feeds;
      for (std::size_t j = 0; j < i; ++j) {
        fed.push_back(input_in_place_of(model, values[j], whole[j]));
        given.insert_or_assign(fed.back().name, whole[j]);
      }
      const Model one = segment(model, fed, values[i]);
      EXPECT_EQ(one.nodes.size(), 1u) << one.outputs[0].name;
      expect_same(results(Program(one), of(one, given)), {whole[i]}, one.outputs[0].name);
    }
  }
}

TEST(Cut, FixesLengths) {
  const Model model = test::model("attention-both");
  const Program program(model);
  const Family family(program);
  const Feeds feeds = family.feeds(family.draw(3, 2));
  std::vector<std::vector<Index>> shapes;
  for (const Input& input : model.inputs) shapes.push_back(feeds.at(input.name).shape);
  const Program fixed(read_model(write_model(with_fixed_lengths(model, shapes)), "fixed"));
  for (const Input& input : fixed.model().inputs)
    for (const Dimension& dimension : input.shape) EXPECT_TRUE(dimension.length);
  expect_same(results(fixed, feeds), results(program, feeds), "fixed");
}

}  // namespace
}  // namespace attest::graph
