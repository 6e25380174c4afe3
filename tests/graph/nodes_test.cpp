// Graphs of one node: runtimes that conform but take no care are not blamed, planted faults are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "graph/ensemble.hpp"
#include "graph/read.hpp"
#include "graph/write.hpp"
#include "tests/graph/draw.hpp"
#include "tests/graph/onnx_file.hpp"
#include "tests/graph/runtimes.hpp"

namespace attest::graph {
namespace {

using test::attr;
using test::Attr;
using test::File;
using Outcome = Judgement::Outcome;

struct Fault {
  std::string name;
  std::function<void(File&)> plant;
};
struct One {
  std::string name;
  File file;  // a node, whose first output is y
  std::vector<Fault> faults;
  bool computes = true;  // rounds: a run in bf16 is a fault, too
  double least = 0.9;    // share of the problems that a fault changes in which it is found
};
std::ostream& operator<<(std::ostream& out, const One& one) { return out << one.name; }

// Numbers between -1 and 1, in steps of 2^-10.
Array weights(std::vector<Index> shape) {
  Array x = zeros(Type::f32, std::move(shape));
  test::Draw draw(static_cast<std::uint64_t>(x.size()));
  for (double& v : x.floats) v = static_cast<double>(draw.below(2049) - 1024) * 0x1p-10;
  return x;
}

// A node on x and constants.
File node(const std::string& op, std::vector<test::Axis> shape, const std::vector<Array>& constants,
          std::vector<Attr> attributes) {
  File file;
  file.opset = 22;
  file.inputs = {{"x", Type::f32, std::move(shape)}};
  std::vector<std::string> inputs{"x"};
  for (const Array& one : constants) inputs.push_back(file.constant(one));
  file(op, std::move(inputs), std::move(attributes), "y");
  file.outputs = {"y"};
  return file;
}

File of_microsoft(File file) {
  file.nodes.back().domain = "com.microsoft";
  return file;
}

// The node with an attribute of another value, or with one more.
Fault with(const Attr& changed) {
  return {changed.name, [changed](File& file) {
            auto& attributes = file.nodes.back().attributes;
            std::erase_if(attributes, [&](const Attr& one) { return one.name == changed.name; });
            attributes.push_back(changed);
          }};
}
// The constant number `index` of the file with numbers changed.
Fault with_constant(std::size_t index, const std::string& name, const std::function<void(Array&)>& change) {
  return {name, [=](File& file) { change(file.constants[index].second); }};
}
void turn_round(Array& x) { std::ranges::reverse(x.floats); }

using List = std::vector<std::int64_t>;

// A Resize of both axes of planes, to lengths.
File resize(std::vector<Attr> attributes) {
  attributes.push_back(attr("axes", List{2, 3}));
  File file =
      node("Resize", {"batch", 2, "height", "width"}, {integers(Type::i64, {2}, {7, 5})}, std::move(attributes));
  auto& inputs = file.nodes.back().inputs;
  inputs.insert(inputs.begin() + 1, {"", ""});
  return file;
}

// A recurrent network on [length, batch, 3] with cells of 4.
File sequence(const std::string& op, Index gates) {
  return node(op, {"length", "batch", 3},
              {weights({1, 4 * gates, 3}), weights({1, 4 * gates, 4}), weights({1, 8 * gates})}, {});
}

Array bytes(std::vector<Index> shape) {
  Array x = zeros(Type::u8, std::move(shape));
  test::Draw draw(static_cast<std::uint64_t>(x.size()));
  for (std::int64_t& v : x.integers) v = draw.below(256);
  return x;
}
File of_bytes(File file) {
  file.inputs.front().type = Type::u8;
  return file;
}

std::vector<One> nodes() {
  // The first two gates change places, which are eight rows of the weights.
  const Fault swapped_gates = with_constant(0, "gates swapped", [](Array& x) {
    std::swap_ranges(x.floats.begin(), x.floats.begin() + 12, x.floats.begin() + 12);
  });
  const std::vector<test::Axis> line{"batch", 4, "length"}, plane{"batch", 4, "height", "width"};
  const auto filter = weights({6, 2, 3, 3});
  const std::vector<Attr> filtered{attr("group", std::int64_t{2}), attr("strides", List{2, 1}),
                                   attr("pads", List{1, 0, 2, 1}), attr("dilations", List{1, 2})};
  const Fault other_way = with_constant(0, "filter turned round", turn_round);
  const Fault no_bias = {"bias left out", [](File& file) { file.nodes.back().inputs.pop_back(); }};
  return {
      {"Conv",
       node("Conv", plane, {filter, weights({6})}, filtered),
       {with(attr("pads", List{2, 0, 1, 1})), other_way, no_bias}},
      {"ConvOfOneAxis",
       node("Conv", line, {weights({3, 4, 4})}, {attr("auto_pad", "SAME_UPPER")}),
       {with(attr("auto_pad", "SAME_LOWER")), other_way}},
      {"ConvTranspose",
       node("ConvTranspose", plane, {weights({4, 3, 3, 2}), weights({6})},
            {attr("group", std::int64_t{2}), attr("strides", List{2, 3}), attr("pads", List{1, 0, 0, 1})}),
       {with(attr("pads", List{0, 0, 1, 1})), with(attr("pads", List{1, 1, 0, 0})), other_way, no_bias}},
      {"AveragePool",
       node("AveragePool", plane, {},
            {attr("kernel_shape", List{3, 2}), attr("strides", List{2, 2}), attr("pads", List{1, 0, 1, 1}),
             attr("ceil_mode", std::int64_t{1})}),
       {with(attr("count_include_pad", std::int64_t{1})), with(attr("pads", List{1, 1, 1, 0}))}},
      {"MaxPool",
       node("MaxPool", plane, {}, {attr("kernel_shape", List{3, 2}), attr("pads", List{1, 0, 1, 1})}),
       {with(attr("pads", List{1, 1, 1, 0}))},
       false},
      {"LpPool", node("LpPool", plane, {}, {attr("kernel_shape", List{2, 3})}), {with(attr("p", std::int64_t{1}))}},
      {"GlobalAveragePool",
       node("GlobalAveragePool", plane, {}, {}),
       {{"largest", [](File& file) { file.nodes.back().op = "GlobalMaxPool"; }}}},
      {"InstanceNormalization",
       node("InstanceNormalization", plane, {weights({4}), weights({4})}, {}),
       {with(attr("epsilon", 0.01)), with_constant(0, "scale turned round", turn_round)}},
      {"GroupNormalization",
       node("GroupNormalization", plane, {weights({4}), weights({4})}, {attr("num_groups", std::int64_t{2})}),
       {with(attr("num_groups", std::int64_t{1})), with(attr("epsilon", 0.01))},
       true,
       0.65},  // a variance of one pass loses itself in the square of an offset

      {"ConvInteger",
       of_bytes(
           node("ConvInteger", plane, {bytes({6, 2, 3, 3}), bytes({}), bytes({6})}, {attr("group", std::int64_t{2})})),
       {{"zero point of the weights left out", [](File& file) { file.nodes.back().inputs.pop_back(); }}},
       false},
      {"QuantizeLinear",
       node("QuantizeLinear", {2, 7}, {floats(Type::f32, {2, 2}, {0.25, 0.125, 0.0625, 0.5})},
            {attr("block_size", std::int64_t{4})}),
       {with_constant(0, "scales turned round", turn_round)},
       false},
      {"LSTM", sequence("LSTM", 4), {with(attr("direction", "reverse")), swapped_gates}},
      {"GRU", sequence("GRU", 3), {with(attr("linear_before_reset", std::int64_t{1})), swapped_gates}},
      {"RNN", sequence("RNN", 1), {with(attr("direction", "reverse"))}},
      {"SkipLayerNormalization",
       of_microsoft(node("SkipLayerNormalization", {"batch", "length", 8},
                         {weights({1, 8}), weights({8}), weights({8}), weights({8})}, {attr("epsilon", 1e-5)})),
       {with_constant(1, "scale turned round", turn_round), with(attr("epsilon", 0.1))}},
      {"BiasGelu",
       of_microsoft(node("BiasGelu", {"batch", "length", 8}, {weights({8})}, {})),
       {{"tanh", [](File& file) { file.nodes.back().op = "FastGelu"; }}},
       true,
       0.6},  // both are x or 0 beyond 4
      {"ResizeNearest",
       resize({}),
       {with(attr("nearest_mode", "ceil")), with(attr("coordinate_transformation_mode", "align_corners"))},
       false},
      {"ResizeLinear",
       resize({attr("mode", "linear")}),
       {with(attr("coordinate_transformation_mode", "asymmetric")), with(attr("mode", "nearest"))}},
      {"ResizeCubic",
       resize({attr("mode", "cubic")}),
       {with(attr("cubic_coeff_a", -0.5)), with(attr("exclude_outside", std::int64_t{1})),
        with(attr("antialias", std::int64_t{1}))}},
  };
}

class Nodes : public ::testing::TestWithParam<One> {};
INSTANTIATE_TEST_SUITE_P(All, Nodes, ::testing::ValuesIn(nodes()), [](const auto& one) { return one.param.name; });

Program program_of(const File& file) { return Program(read_model(file.bytes(), "m")); }

// `wanted` problems that the node takes, of up to 512 elements.
std::vector<Feeds> problems(const Program& program, std::uint64_t seed, std::size_t wanted) {
  const Family family(program);
  std::vector<Feeds> found;
  for (std::uint64_t i = 0; found.size() < wanted && i < 20 * wanted; ++i) {
    const Problem problem = family.draw(seed, i, 512);
    if (family.takes(problem)) found.push_back(family.feeds(problem));
  }
  EXPECT_EQ(found.size(), wanted);
  return found;
}

TEST_P(Nodes, RuntimesAreNotBlamed) {
  const Program program = program_of(GetParam().file);
  int held = 0, runs = 0;
  for (const Feeds& feeds : problems(program, 3, 40)) {
    Ensemble ensemble(program, feeds, {}, static_cast<std::uint64_t>(runs));
    for (const auto& [kind, how] : test::runtimes()) {
      const auto judged = ensemble.judge(results_by(program, feeds, *careless(how), {}));
      EXPECT_NE(judged.outcome, Outcome::failed)
          << kind << " run " << runs << " z " << judged.z << " T " << judged.t.value_or(0);
      held += judged.outcome == Outcome::held;
      ++runs;
    }
  }
  EXPECT_GE(held, runs * 9 / 10);
}

TEST_P(Nodes, FaultsAreFound) {
  const Program program = program_of(GetParam().file);
  const auto found_in = [&](const std::string& name, const Program& computed, const Precision& precision) {
    int changed = 0, found = 0;
    for (const Feeds& feeds : problems(program, 4, 30)) {
      const auto out = results_by(computed, feeds, *nearest(), precision);
      const Array sound = results_by(program, feeds, *nearest(), {})[0];
      if (out[0].floats == sound.floats && out[0].integers == sound.integers) continue;
      ++changed;
      found += Ensemble(program, feeds, {}, 1).judge(out).outcome == Outcome::failed;
    }
    EXPECT_GE(changed, 10) << name;
    EXPECT_GE(found, changed * GetParam().least) << name << ": " << found << " of " << changed;
  };
  for (const Fault& fault : GetParam().faults) {
    File file = GetParam().file;
    fault.plant(file);
    found_in(fault.name, program_of(file), {});
  }
  if (GetParam().computes) found_in("in bf16", program, precision_from_text("run=bf16"));
}

// The version of each domain is written with a model.
TEST(Domains, AreWritten) {
  const std::string version =
      "\x0a\x0d"
      "com.microsoft\x10\x01";
  const auto written = [](const File& file) { return write_model(read_model(file.bytes(), "m")); };
  const File gelu = node("Gelu", {"n"}, {}, {});
  EXPECT_EQ(written(gelu).find(version), std::string::npos);
  const std::string bytes = written(of_microsoft(gelu));
  EXPECT_NE(bytes.find(version), std::string::npos);
  EXPECT_EQ(read_model(bytes, "m").nodes.front().domain, "com.microsoft");
}

// A large node asks on its way, too, whether to go on.
TEST(Large, NodesStopWhereTheyAreTold) {
  for (const File& file : {node("MatMul", {512, 1024}, {weights({1024, 1024})}, {}),
                           node("Conv", {1, 64, 130, 130}, {weights({64, 64, 3, 3})}, {})}) {
    const Program program(read_model(file.bytes(), "m"));
    const auto reference = exact();
    const Arithmetic* const lanes[] = {reference.get()};
    std::vector<Index> shape;
    for (const Dimension& axis : program.model().inputs[0].shape) shape.push_back(*axis.length);
    int asked = 0;
    EXPECT_THROW((void)program.run({{"x", weights(shape)}}, lanes, {}, [&asked] { return ++asked > 1; }), Stopped);
    EXPECT_EQ(asked, 2);
  }
}

}  // namespace
}  // namespace attest::graph
