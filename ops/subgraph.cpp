#include "ops/subgraph.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "graph/shapes.hpp"

namespace attest::ops {

std::string giver_in_words(const graph::Connections& graph, int value) {
  if (const graph::Node* const node = graph.giver(value)) return node->op;
  return graph.is_constant(value) ? "a constant" : "an input";
}

SubgraphVerdict unjudged(std::string reason) { return {Verdict::skip(std::move(reason)), {}, 0}; }

void feed(Subgraph& subgraph, const graph::Connections& graph, int value) {
  if (!graph.is_constant(value) && std::ranges::find(subgraph.fed, value) == subgraph.fed.end())
    subgraph.fed.push_back(value);
}

Index product_of(std::span<const Index> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), Index{1}, std::multiplies<>());
}

std::optional<std::vector<double>> broadcast_numbers(const graph::Array& x, std::span<const Index> shape) {
  if (x.shape.size() > shape.size()) return std::nullopt;
  for (std::size_t k = 1; k <= x.shape.size(); ++k)
    if (x.shape[x.shape.size() - k] != 1 && x.shape[x.shape.size() - k] != shape[shape.size() - k]) return std::nullopt;
  const std::vector<Index> strides = graph::broadcast_strides(x.shape, shape);
  std::vector<double> all(static_cast<std::size_t>(product_of(shape)));
  std::vector<Index> index(shape.size(), 0);
  for (double& one : all) {
    std::size_t from = 0;
    for (std::size_t k = 0; k < shape.size(); ++k) from += static_cast<std::size_t>(index[k] * strides[k]);
    one = x.floats.empty() ? static_cast<double>(x.integers[from]) : x.floats[from];
    for (std::size_t k = shape.size(); k-- > 0;) {
      if (++index[k] < shape[k]) break;
      index[k] = 0;
    }
  }
  return all;
}

Tensor packed_tensor(std::span<const double> numbers, DType type, std::span<const Index> shape) {
  Tensor tensor(type, shape);
  std::size_t next = 0;
  for_each_index(shape, [&](Index a, Index b, Index c, Index d) { tensor.set(a, b, c, d, numbers[next++]); });
  return tensor;
}

}  // namespace attest::ops
