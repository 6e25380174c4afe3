#include "graph/read.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "graph/program.hpp"
#include "tests/graph/onnx_file.hpp"

namespace attest::graph {
namespace {

using test::attr;
using test::File;

// y = softmax(x w + b), with a chosen element and a cast on the side.
File sample() {
  File file;
  file.inputs = {{"x", Type::f32, {"batch", 3}}, {"ids", Type::i64, {"n"}}};
  file.constant(floats(Type::f32, {3, 2}, {1, 2, 3, 4, 5, 6}), "w");
  file.constant(floats(Type::f32, {2}, {0.5, -0.5}), "b");
  file("MatMul", {"x", "w"}, {}, "xw");
  file("Add", {"xw", "b"}, {}, "sum");
  file("Softmax", {"sum"}, {attr("axis", std::int64_t{-1})}, "y");
  file("Gather", {"y", "ids"}, {attr("axis", std::int64_t{0})}, "rows");
  file.outputs = {"y", "rows"};
  return file;
}

Model read(const File& file) { return read_model(file.bytes(), "m.onnx"); }

// The sentence, or "" where the file is read.
std::string complaint(const std::string& bytes) {
  try {
    Program(read_model(bytes, "m.onnx"));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
}
std::string complaint(const File& file) { return complaint(file.bytes()); }

TEST(ReadModel, GivesInputsConstantsNodesAndOutputs) {
  const Model model = read(sample());
  EXPECT_EQ(model.opset, 18);
  ASSERT_EQ(model.inputs.size(), 2u);
  EXPECT_EQ(model.inputs[0].name, "x");
  EXPECT_EQ(model.inputs[0].type, Type::f32);
  ASSERT_EQ(model.inputs[0].shape.size(), 2u);
  EXPECT_EQ(model.inputs[0].shape[0].symbol, "batch");
  EXPECT_FALSE(model.inputs[0].shape[0].length);
  EXPECT_EQ(model.inputs[0].shape[1].length, 3);
  EXPECT_EQ(model.inputs[1].type, Type::i64);
  ASSERT_EQ(model.constants.size(), 2u);
  EXPECT_EQ(model.constants.at(0).array().floats, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(model.constants.at(0).shape, (std::vector<Index>{3, 2}));
  ASSERT_EQ(model.nodes.size(), 4u);
  EXPECT_EQ(model.nodes[2].op, "Softmax");
  EXPECT_EQ(std::get<std::int64_t>(model.nodes[2].attributes.at("axis")), -1);
  ASSERT_EQ(model.outputs.size(), 2u);
  EXPECT_EQ(model.values[static_cast<std::size_t>(model.outputs[1].value)], "rows");
}

TEST(ReadModel, ReadsEveryTypeRawAndTyped) {
  const Array arrays[] = {
      floats(Type::f16, {3}, {1.5, -65504, 0x1p-24}),    floats(Type::bf16, {2}, {-2.5, 0x1p100}),
      floats(Type::f32, {1, 2}, {0x1.fffffep127, -0.0}), floats(Type::f64, {}, {0x1.123456789abcdp-3}),
      integers(Type::i32, {2}, {-7, 2147483647}),        integers(Type::i64, {2}, {-1, std::int64_t{1} << 60}),
      integers(Type::boolean, {3}, {1, 0, 1}),           floats(Type::f32, {0, 4}, {})};
  for (const bool typed : {false, true}) {
    File file = sample();
    file.typed = typed;
    for (const Array& array : arrays) file.constant(array);
    const Model model = read(file);
    for (std::size_t i = 0; i < std::size(arrays); ++i) {
      const Array found = model.constants.at(static_cast<int>(i) + 2).array();
      EXPECT_EQ(found.type, arrays[i].type);
      EXPECT_EQ(found.shape, arrays[i].shape);
      EXPECT_EQ(found.floats, arrays[i].floats) << name(found.type) << typed;
      EXPECT_EQ(found.integers, arrays[i].integers) << name(found.type) << typed;
    }
  }
}

TEST(ReadModel, OrdersNodes) {
  File file = sample();
  std::reverse(file.nodes.begin(), file.nodes.end());
  const Model model = read(file);
  EXPECT_EQ(model.nodes.front().op, "MatMul");
  EXPECT_EQ(model.nodes.back().op, "Gather");
}

TEST(ReadModel, TakesAnInitialiserForADefault) {
  File file = sample();
  file.inputs.push_back({"w", Type::f32, {3, 2}});
  EXPECT_EQ(read(file).inputs.size(), 2u);
}

// Each fault in one sentence that names what is wrong and where.
TEST(ReadModel, RefusesWhatDoesNotGoTogether) {
  struct Case {
    const char* says;
    std::function<void(File&)> plant;
  };
  const Case cases[] = {
      {"node 'xw' (MatMul) reads 'v', which nothing gives", [](File& f) { f.nodes[0].inputs[1] = "v"; }},
      {"gives 'w', which is given already", [](File& f) { f.nodes[1].outputs[0] = "w"; }},
      {"input 'x' gives 'x', which is given already", [](File& f) { f.inputs.push_back(f.inputs[0]); }},
      {"the graph goes in a circle", [](File& f) { f.nodes[0].inputs[0] = "y"; }},
      {"waits for its own result", [](File& f) { f.nodes[1].inputs[1] = "sum"; }},
      {"output 'z' is given by nothing", [](File& f) { f.outputs.push_back("z"); }},
      {"its graph has no outputs", [](File& f) { f.outputs.clear(); }},
      {"initialiser '' has no name", [](File& f) { f.constants[0].first = ""; }},
      {"node 0 has no operator", [](File& f) { f.nodes[0].op = ""; }},
      {"tensor 'w' has the shape [3, 3] and 6 numbers",
       [](File& f) {
         f.constants[0].second.shape = {3, 3};
       }},
      {"tensor 'w' has an axis of length -3",
       [](File& f) {
         f.constants[0].second.shape = {-3, -2};
       }},
      {"more elements than can be counted",
       [](File& f) {
         f.constants[0].second.shape = {Index{1} << 40, Index{1} << 40};
       }},
      {"its operators are those of version 6", [](File& f) { f.opset = 6; }},
      {"its operators are those of version 99", [](File& f) { f.opset = 99; }},
      {"'x' has an axis of length 1099511627776", [](File& f) { f.inputs[0].shape[1].length = Index{1} << 40; }},
      {"attest does not evaluate Neither ('y') of version 18: rewrite the nodes",
       [](File& f) { f.nodes[2].op = "Neither"; }},
      {"attest does not evaluate Neither ('xw' and 1 more), com.nobody.Gather ('rows') of version 18",
       [](File& f) {
         f.nodes[0].op = f.nodes[2].op = "Neither";
         f.nodes[3].domain = "com.nobody";
       }},
      {"node 'y' (Softmax): 2 inputs are not what the operator takes",
       [](File& f) { f.nodes[2].inputs.push_back("x"); }},
      {"node 'y' (Softmax): attest evaluates the operator's first output alone",
       [](File& f) { f.nodes[2].outputs.push_back("more"); }},
  };
  EXPECT_EQ(complaint(sample()), "");
  for (const Case& one : cases) {
    File file = sample();
    one.plant(file);
    const std::string said = complaint(file);
    EXPECT_NE(said.find(one.says), std::string::npos) << one.says << "\n" << said;
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
}

// y = leaky(leaky(x)), by a function that calls another one; alpha is stated once, and once the function's own.
File with_functions() {
  File file;
  file.inputs = {{"x", Type::f64, {2}}};
  file.functions = {
      {"own", "Outer", {"a", "unused"}, {"b", "same"}, {{"Inner", {"a"}, {"b"}, {}, "own"}}, {}},
      {"own",
       "Inner",
       {"p"},
       {"q"},
       {{"LeakyRelu", {"p"}, {"t"}, {test::parameter("alpha", "slope")}, {}}, {"Identity", {"t"}, {"q"}, {}, {}}},
       {attr("slope", 0.5)}}};
  file.functions[0].outputs = {"b", "a"};
  file.nodes = {{"Outer", {"x"}, {"h", "copy"}, {}, "own"}, {"Inner", {"h"}, {"y"}, {attr("slope", 0.25)}, "own"}};
  file.outputs = {"y", "copy"};
  return file;
}

TEST(ReadModel, InlinesFunctions) {
  const Program program(read(with_functions()));
  const auto outputs = program.run({{"x", floats(Type::f64, {2}, {-8, 3})}});
  EXPECT_EQ(outputs[0].floats, (std::vector<double>{-1, 3}));
  EXPECT_EQ(outputs[1].floats, (std::vector<double>{-8, 3}));
}

TEST(ReadModel, RefusesFunctionsThatCannotBeInlined) {
  File file = with_functions();
  file.functions[1].nodes[0] = {"Outer", {"p"}, {"t"}, {}, "own"};
  EXPECT_NE(complaint(file).find("its function 'Outer' calls itself"), std::string::npos) << complaint(file);
  file = with_functions();
  file.functions[1].opset = 12;
  EXPECT_NE(complaint(file).find("its function 'Inner' has operators of version 12, its graph of 18"),
            std::string::npos);
  file = with_functions();
  file.functions[1].nodes.push_back({"Neither", {"t"}, {"u"}, {}, {}});
  EXPECT_NE(complaint(file).find("attest does not evaluate Neither"), std::string::npos) << complaint(file);
}

TEST(ReadModel, RefusesWhatIsNoModel) {
  EXPECT_NE(complaint(std::string()).find("m.onnx: it has no graph"), std::string::npos);
  EXPECT_NE(complaint(std::string("PK\x03\x04 surely a zip archive")).find("m.onnx"), std::string::npos);
  EXPECT_THROW(load_model("/nowhere/m.onnx"), Error);
  EXPECT_THROW(load_model(std::filesystem::temp_directory_path()), Error);
}

TEST(ReadModel, ReadsFiles) {
  const auto path = std::filesystem::path("graph_read_test.onnx");
  std::ofstream(path, std::ios::binary) << sample().bytes();
  EXPECT_EQ(load_model(path).nodes.size(), 4u);
  std::filesystem::remove(path);
}

// Whatever bytes come: a model, or one sentence. Sanitizers watch in builds that have them.
TEST(ReadModel, SurvivesDamage) {
  const std::string whole = sample().bytes();
  int read = 0, refused = 0;
  const auto give = [&](const std::string& bytes) { complaint(bytes).empty() ? ++read : ++refused; };
  for (std::size_t length = 0; length < whole.size(); ++length) give(whole.substr(0, length));
  for (std::uint64_t i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    const std::uint64_t key = extend(17, i), edits = 1 + below(extend(key, 0), 4);
    for (std::uint64_t e = 0; e < edits; ++e) {
      const std::uint64_t draw = extend(key, 10 + e);
      const auto at = static_cast<std::size_t>(below(mix(draw), bytes.size()));
      switch (draw % 4) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1u << (draw >> 8) % 8));
          break;
        case 1:
          bytes[at] = static_cast<char>(draw >> 16);
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(0xff));
          break;
        default:
          if (bytes.size() > 1) bytes.erase(at, 1);
      }
    }
    give(bytes);
  }
  // Names and numbers may change without harm; most damage shows.
  EXPECT_GT(read, 500);
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace attest::graph
