// Lengths that a graph takes are found, and asked for; those that it takes anyhow, or that its owner says, are left
// alone.
#include "models/lengths.hpp"

#include <gtest/gtest.h>

#include "graph/read.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/onnx_file.hpp"

namespace attest::models {
namespace {

using graph::Type;
using graph::test::attr;
using graph::test::File;

std::string found(const graph::Model& model, graph::Constraints said = {}) {
  return to_text(with_lengths_taken(graph::Program(model), std::move(said)));
}
std::string found(const File& file) { return found(graph::read_model(file.bytes(), "m")); }

// A window of 5 elements on an axis that is open, of samples of two channels.
File window() {
  File f;
  f.inputs = {{"x", Type::f32, {"batch", 2, "length"}}};
  f("AveragePool", {"x"}, {attr("kernel_shape", std::vector<std::int64_t>{5})}, "y");
  f.outputs = {"y"};
  return f;
}

// An image that is shrunk to a fourth and enlarged again, and added to itself: sides of four, eight and so on.
File halves() {
  File f;
  f.inputs = {{"x", Type::f32, {"batch", 1, "height", "width"}}};
  const std::vector<std::int64_t> four{4, 4};
  f("AveragePool", {"x"}, {attr("kernel_shape", four), attr("strides", four)}, "small");
  f("Resize", {"small", "", f.constant(graph::floats(Type::f32, {4}, {1, 1, 4, 4}))}, {attr("mode", "nearest")},
    "large");
  f("Add", {"x", "large"}, {}, "y");
  f.outputs = {"y"};
  return f;
}

TEST(Lengths, OfWindowsAreFoundFromTheFirstOn) { EXPECT_EQ(found(window()), "size.length=8..65536"); }

TEST(Lengths, OfHalvesAreMultiples) {
  const std::string text = found(halves());
  EXPECT_TRUE(text.starts_with("size.height=4,8,12,16,")) << text;
  EXPECT_NE(text.find("size.width=4,8,12,16,"), std::string::npos) << text;
  EXPECT_EQ(text.find("batch"), std::string::npos) << text;
}

TEST(Lengths, ThatTheFileExcludesAreNotTaken) {
  File f = window();
  f.nodes[0] = {"Identity", {"x"}, {"y"}, {}, {}};
  EXPECT_EQ(found(f), "");
  f.within = {{"y", Type::f32, {"batch", 2, 32}}};
  EXPECT_EQ(found(f), "") << "one length alone is none that is looked for";
  File two = window();
  two.within = {{"y", Type::f32, {2, 2, "more"}}};
  EXPECT_EQ(found(two), "") << "a batch of two alone";
}

TEST(Lengths, ThatAreTakenAnyhowOrSaidAreLeftAlone) {
  for (const std::string& name : graph::test::models()) EXPECT_EQ(found(graph::test::model(name)), "") << name;
  graph::Constraints said;
  constrain(said, "size.length", "6..7");
  EXPECT_EQ(found(graph::read_model(window().bytes(), "m"), said), "size.length=6..7");
}

}  // namespace
}  // namespace attest::models
