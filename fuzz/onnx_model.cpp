// ONNX files: read, and evaluated where that is little work.
#include <vector>

#include "fuzz/target.hpp"
#include "graph/program.hpp"
#include "graph/read.hpp"

using namespace attest;

namespace {

constexpr Index open_length = 2, most_elements = 1 << 14;

graph::Feeds feeds_for(const graph::Model& model) {
  graph::Feeds feeds;
  for (const auto& input : model.inputs) {
    std::vector<Index> shape;
    for (const auto& axis : input.shape) shape.push_back(axis.length.value_or(open_length));
    graph::elements(shape, most_elements, input.name);
    graph::Array value = graph::zeros(input.type, shape);
    for (double& v : value.floats) v = 0.5;
    feeds.emplace(input.name, std::move(value));
  }
  return feeds;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepts([&] {
    const graph::Program program(graph::read_model(fuzz::as_text(data, size), "in.onnx"), most_elements);
    const auto reference = graph::exact(), other = graph::member(1);
    const graph::Arithmetic* const lanes[] = {reference.get(), other.get()};
    const auto outputs = program.run(feeds_for(program.model()), lanes, {});
    fuzz::require(outputs.size() == program.model().outputs.size(), "an output is missing");
    for (const auto& out : outputs) {
      Index count = out.lanes;
      for (const Index length : out.shape) count *= length;
      fuzz::require(count == static_cast<Index>(out.floats.size() + out.integers.size()), "a shape that does not fit");
    }
  });
  return 0;
}
