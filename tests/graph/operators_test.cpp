// Operators against what ONNX's reference evaluator gives (expectations.py), and against numbers worked out by hand.
#include "graph/operators.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "graph/precision.hpp"
#include "graph/program.hpp"
#include "graph/read.hpp"
#include "tests/graph/onnx_file.hpp"

namespace attest::graph {
namespace {

using test::attr;
using test::File;

std::vector<Array> outputs_of(const std::string& bytes, const Feeds& feeds) {
  return Program(read_model(bytes, "m.onnx")).run(feeds);
}

// One node over constants.
Array evaluated(const std::string& op, const std::vector<Array>& inputs, std::vector<test::Attr> attributes = {},
                std::int64_t opset = 18) {
  File file;
  file.opset = opset;
  std::vector<std::string> names;
  for (const Array& input : inputs) names.push_back(file.constant(input));
  file(op, names, std::move(attributes), "y");
  file.outputs = {"y"};
  return outputs_of(file.bytes(), {}).front();
}

std::string refusal(const std::string& op, const std::vector<Array>& inputs, std::vector<test::Attr> attributes = {}) {
  try {
    evaluated(op, inputs, std::move(attributes));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

constexpr double inf = std::numeric_limits<double>::infinity();

Type type_from(const std::string& name) {
  for (int i = 0; i < 9; ++i)
    if (graph::name(static_cast<Type>(i)) == name) return static_cast<Type>(i);
  throw std::runtime_error(name);
}

Array array_from(const nlohmann::json& stored) {
  Array array{type_from(stored.at("type")), stored.at("shape"), 1, {}, {}};
  for (const auto& value : stored.at("values")) {
    if (!is_floating(array.type))
      array.integers.push_back(value.is_boolean() ? value.get<bool>() : value.get<std::int64_t>());
    else
      array.floats.push_back(value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>());
  }
  return array;
}

std::string unhex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

bool near(double got, double expected, double unit) {
  if (std::isnan(expected)) return std::isnan(got);
  return got == expected || std::fabs(got - expected) <= unit * std::max(1.0, std::fabs(expected));
}

// "" where got is expected.
std::string difference(const Array& got, const Array& expected) {
  if (got.type != expected.type || got.shape != expected.shape)
    return std::string(name(got.type)) + shape_text(got.shape) + " in place of " + std::string(name(expected.type)) +
           shape_text(expected.shape);
  if (got.integers != expected.integers) return "integers differ";
  const double unit = expected.type == Type::f64 ? 1e-13 : 1e-6;
  for (std::size_t i = 0; i < expected.floats.size(); ++i)
    if (!near(got.floats.at(i), expected.floats[i], unit))
      return "element " + std::to_string(i) + ": " + std::to_string(got.floats[i]) + " in place of " +
             std::to_string(expected.floats[i]);
  return "";
}

class Expectations : public ::testing::Test {
 protected:
  Expectations() {
    std::ifstream file(ATTEST_SOURCE_DIR "/tests/graph/expectations.json");
    stored = nlohmann::json::parse(file).at("cases");
  }
  nlohmann::json stored;
};

TEST_F(Expectations, AreMet) {
  ASSERT_GT(stored.size(), 100u);
  for (const auto& one : stored) {
    Feeds feeds;
    for (const auto& [name, value] : one.at("inputs").items()) feeds.emplace(name, array_from(value));
    const auto outputs = outputs_of(unhex(one.at("model")), feeds);
    ASSERT_EQ(outputs.size(), one.at("outputs").size()) << one.at("name");
    for (std::size_t i = 0; i < outputs.size(); ++i)
      EXPECT_EQ(difference(outputs[i], array_from(one.at("outputs")[i])), "") << one.at("name");
  }
}

TEST_F(Expectations, AreNotMetByOthers) {
  const Array y = floats(Type::f64, {2}, {1, 2});
  EXPECT_EQ(difference(y, y), "");
  EXPECT_NE(difference(floats(Type::f64, {2}, {1, 2 + 1e-12}), y), "");
  EXPECT_NE(difference(floats(Type::f64, {1, 2}, {1, 2}), y), "");
  EXPECT_NE(difference(floats(Type::f64, {2}, {1, NAN}), y), "");
}

TEST(Operators, GiveWhatIsWorkedOutByHand) {
  const Array x = floats(Type::f64, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(evaluated("MatMul", {x, x}).floats, (std::vector<double>{7, 10, 15, 22}));
  EXPECT_EQ(evaluated("Softmax", {floats(Type::f64, {1, 2}, {0, std::log(3.0)})}).floats[1], 0.75);
  EXPECT_EQ(evaluated("LayerNormalization", {floats(Type::f64, {2}, {1, 3}), floats(Type::f64, {2}, {2, 2})},
                      {attr("epsilon", 3.0)})
                .floats,
            (std::vector<double>{-1, 1}));
  EXPECT_EQ(evaluated("ReduceL2", {floats(Type::f64, {2}, {3, 4})}).floats, (std::vector<double>{5}));
  EXPECT_EQ(evaluated("Transpose", {x}).floats, (std::vector<double>{1, 3, 2, 4}));
  EXPECT_EQ(evaluated("Div", {integers(Type::i64, {2}, {-7, std::numeric_limits<std::int64_t>::min()}),
                              integers(Type::i64, {2}, {2, -1})})
                .integers,
            (std::vector<std::int64_t>{-3, std::numeric_limits<std::int64_t>::min()}));
  EXPECT_EQ(evaluated("Mul", {integers(Type::i32, {1}, {1 << 30}), integers(Type::i32, {1}, {6})}).integers.front(),
            std::int32_t{-2147483647 - 1});
  EXPECT_EQ(
      evaluated("Cast", {floats(Type::f32, {4}, {1e30, -1e30, NAN, -inf})}, {attr("to", std::int64_t{6})}).integers,
      (std::vector<std::int64_t>{2147483647, -2147483648LL, 0, -2147483648LL}));
  EXPECT_EQ(evaluated("Clip", {floats(Type::f32, {2}, {-3, 3})}, {attr("min", -1.0), attr("max", 2.0)}, 10).floats,
            (std::vector<double>{-1, 2}));
}

// Before version 13 Softmax took all axes from the named one on together.
TEST(Operators, SoftmaxOfOldVersions) {
  const Array x = floats(Type::f64, {1, 2, 2}, {0, 0, 0, 0});
  EXPECT_EQ(evaluated("Softmax", {x}, {}, 11).floats.front(), 0.25);
  EXPECT_EQ(evaluated("Softmax", {x}, {}, 13).floats.front(), 0.5);
}

TEST(Operators, RefuseInOneSentence) {
  const Array x = floats(Type::f64, {2, 3}, {1, 2, 3, 4, 5, 6}), one = floats(Type::f64, {1}, {1});
  const auto list = [](std::vector<std::int64_t> values) {
    const auto count = static_cast<Index>(values.size());
    return integers(Type::i64, {count}, std::move(values));
  };
  struct Case {
    std::string said;
    const char* wanted;
  };
  const Case cases[] = {
      {refusal("Add", {x, floats(Type::f64, {2}, {1, 2})}), "node 'y' (Add): [2, 3] and [2] do not broadcast"},
      {refusal("Add", {x, floats(Type::f32, {1}, {1})}), "float64 and float32 do not go together"},
      {refusal("MatMul", {x, x}), "[2, 3] times [2, 3]"},
      {refusal("MatMul", {list({1}), list({1})}), "int64 times int64"},
      {refusal("Gather", {x, list({2})}), "index 2 of an axis of length 2"},
      {refusal("Gather", {x, list({0})}, {attr("axis", std::int64_t{2})}), "axis 2 of a tensor of 2 axes"},
      {refusal("Reshape", {x, list({4, -1})}), "6 elements do not fit [4, -1]"},
      {refusal("Reshape", {x, list({-1, -1})}), "two axes of the new shape are -1"},
      {refusal("Reshape", {x, list({7})}), "[2, 3] does not fit [7]"},
      {refusal("Concat", {x, one}, {attr("axis", std::int64_t{0})}), "do not join along axis 0"},
      {refusal("Split", {x, list({1, 2})}, {attr("axis", std::int64_t{1})}),
       "an axis of length 3 is split into [1, 2]"},
      {refusal("Slice", {x, list({0}), list({1}), list({0}), list({0})}), "a step is 0"},
      {refusal("Slice", {x, list({0, 0}), list({1, 1}), list({0, 0})}), "an axis is named twice"},
      {refusal("Div", {list({1}), list({0})}), "an integer is divided by 0"},
      {refusal("Squeeze", {x, list({0})}), "axis 0 has length 2"},
      {refusal("ConstantOfShape", {list({1 << 20, 1 << 20})}), "more than"},
      {refusal("Expand", {one, list({1 << 30})}), "more than"},
      {refusal("Range", {one, floats(Type::f64, {1}, {9}), floats(Type::f64, {1}, {0})}), "has a step of 0"},
      {refusal("Range",
               {floats(Type::f32, {}, {0}), floats(Type::f32, {}, {1}), floats(Type::f32, {}, {0x1.99999ap-4})}),
       "runtimes add them up or multiply"},
      {refusal("Softmax", {x}, {attr("axis", 1.0)}), "its attribute 'axis' is not an integer"},
      {refusal("Cast", {x}, {attr("to", std::int64_t{8})}), "of type string"},
      {refusal("Gelu", {x}, {attr("approximate", "sine")}), "approximate 'sine' is unknown"},
      {refusal("Not", {x}), "float64 where a bool is needed"},
      {refusal("Transpose", {x}, {attr("perm", std::vector<std::int64_t>{0, 0})}), "an axis is named twice"},
      {refusal("Trilu", {x, list({})}), "its diagonal is not one number"},
      {refusal("Constant", {}), "its value is neither numbers nor a tensor"},
  };
  for (const Case& one_case : cases)
    EXPECT_NE(one_case.said.find(one_case.wanted), std::string::npos) << one_case.wanted << "\n" << one_case.said;
}

// A shape that hangs on computed floats is not one shape for all members.
TEST(Operators, RefuseShapesOfComputedFloats) {
  File file;
  file.inputs = {{"x", Type::f32, {1}}};
  // 49 times the float32 of 1/49 is below 1, and 1 once it is rounded.
  const auto part = file("Mul", {"x", file.constant(floats(Type::f32, {1}, {0x1.4e5e0ap-6}))});
  const auto length = file("Cast", {part}, {attr("to", std::int64_t{7})});
  file("ConstantOfShape", {length}, {}, "y");
  file.outputs = {"y"};
  const Program program(read_model(file.bytes(), "m"));
  const auto reference = exact(), other = nearest();
  const Arithmetic* const lanes[] = {reference.get(), other.get()};
  const auto one_x = [](double x) { return Feeds{{"x", floats(Type::f32, {1}, {x})}}; };
  EXPECT_EQ(program.run(one_x(98.5), lanes, Precision{}).front().shape, std::vector<Index>{2});
  try {
    (void)program.run(one_x(49), lanes, Precision{});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("depends on computed floats"), std::string::npos) << error.what();
  }
}

// A number that shapes alone make, and integers take, is computed as a runtime computes it, alike in all lanes: 49
// times the float32 of 1/49 is 1.
TEST(Operators, FoldWhatFloatsMakeOfShapes) {
  File file;
  file.inputs = {{"x", Type::f32, {"n"}}};
  const auto length = file("Cast", {file("Shape", {"x"})}, {attr("to", std::int64_t{1})});
  const auto part = file("Mul", {length, file.constant(floats(Type::f32, {1}, {0x1.4e5e0ap-6}))});
  file("ConstantOfShape", {file("Cast", {part}, {attr("to", std::int64_t{7})})}, {}, "y");
  file.outputs = {"y"};
  const Feeds feeds{{"x", floats(Type::f32, {49}, std::vector<double>(49, 0))}};
  const auto shape_of = [&] { return outputs_of(file.bytes(), feeds).front().shape; };
  EXPECT_EQ(shape_of(), std::vector<Index>{1});
  file.outputs = {"y", part};  // floats that are a result keep what is open of them
  EXPECT_EQ(shape_of(), std::vector<Index>{0});
}

// The outputs of products and a look-up with w, [300, 70] or turned, in the lanes of an ensemble; w as weights of the
// file, or as an input.
std::vector<Array> with_weights_as(bool inputs, const std::string& op, const Array& w, const Precision& precision) {
  File file;
  Array x = zeros(w.type, {7, op == "turned" ? w.shape[1] : w.shape[0]});
  for (std::size_t i = 0; i < x.floats.size(); ++i) x.floats[i] = static_cast<double>(i % 13) / 8 - 0.75;
  file.inputs = {{"x", w.type, {7, "k"}}};
  Feeds feeds{{"x", x}};
  if (inputs) {
    file.inputs.push_back({"w", w.type, {w.shape[0], w.shape[1]}});
    feeds.emplace("w", w);
  } else {
    file.constant(w, "w");
  }
  if (op == "Gather")
    file("Gather", {"w", file.constant(integers(Type::i64, {3}, {0, -1, 5}))}, {}, "y");
  else if (op == "MatMul")
    file("MatMul", {"x", "w"}, {}, "y");
  else
    file("Gemm", {"x", "w"}, {attr("transB", std::int64_t{op == "turned" ? 1 : 0})}, "y");
  file.outputs = {"y"};
  const auto truth = exact(), rounded = nearest(), random = member(3);
  const Arithmetic* const lanes[] = {truth.get(), rounded.get(), random.get()};
  return Program(read_model(file.bytes(), "m")).run(feeds, lanes, precision);
}

TEST(Weights, GiveWhatTheSameTensorGivesAsAnInput) {
  for (const Type type : {Type::f16, Type::bf16, Type::f32, Type::f64})
    for (const std::string op : {"MatMul", "Gemm", "turned", "Gather"}) {
      Array w = zeros(type, {300, 70});
      for (std::size_t i = 0; i < w.floats.size(); ++i) w.floats[i] = static_cast<double>(i * 37 % 251) / 64 - 2;
      const auto as_inputs = with_weights_as(true, op, w, {}), stored = with_weights_as(false, op, w, {});
      EXPECT_EQ(stored[0].shape, as_inputs[0].shape) << op;
      EXPECT_EQ(stored[0].floats, as_inputs[0].floats) << op << name(type);
      w.floats[5 * 70 + 1] += 1;
      EXPECT_NE(with_weights_as(false, op, w, {})[0].floats, as_inputs[0].floats) << op << name(type);
    }
}

// Where weights are computed with in another format they are rounded to it, each member in its own way.
TEST(Weights, AreRoundedWhereTheyRunInAnotherFormat) {
  Array w = zeros(Type::f32, {40, 9});
  for (std::size_t i = 0; i < w.floats.size(); ++i) w.floats[i] = 1 + static_cast<double>(i) * 0x1p-20;
  const auto run = with_weights_as(false, "MatMul", w, precision_from_text("run=bf16"));
  const auto literal = with_weights_as(false, "MatMul", w, {});
  ASSERT_EQ(run[0].lanes, 3);
  EXPECT_TRUE(std::ranges::equal(run[0].lane(0), literal[0].lane(0)));
  EXPECT_FALSE(std::ranges::equal(run[0].lane(1), literal[0].lane(1)));
}

TEST(Program, ChecksWhatIsFed) {
  File file;
  file.inputs = {{"x", Type::f32, {"n", 2}}, {"y", Type::f32, {"n", "m"}}};
  file("Add", {"x", "y"}, {}, "z");
  file.outputs = {"z"};
  const auto said = [&file](const Feeds& feeds) -> std::string {
    try {
      outputs_of(file.bytes(), feeds);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto pairs = [](Index n) {
    return floats(Type::f32, {n, 2}, std::vector<double>(static_cast<std::size_t>(2 * n), 1));
  };
  EXPECT_EQ(said({{"x", pairs(3)}, {"y", pairs(3)}}), "");
  EXPECT_EQ(said({{"x", pairs(3)}}), "input 'y' is missing");
  EXPECT_EQ(said({{"x", pairs(3)}, {"y", pairs(2)}}), "input 'y': n is 2 here and 3 elsewhere");
  EXPECT_EQ(said({{"x", floats(Type::f32, {1, 3}, {1, 2, 3})}, {"y", pairs(1)}}),
            "input 'x': a tensor of shape [1, 3] is not what the model takes");
  EXPECT_EQ(said({{"x", floats(Type::f64, {1, 2}, {1, 2})}, {"y", pairs(1)}}),
            "input 'x': float64 in place of float32");
  EXPECT_EQ(said({{"x", floats(Type::f32, {1, 2}, {1})}, {"y", pairs(1)}}),
            "input 'x': its elements do not fill its shape");
  EXPECT_EQ(said({{"x", pairs(1)}, {"y", pairs(1)}, {"z", pairs(1)}}), "the model has no input 'z'");
}

}  // namespace
}  // namespace attest::graph
