#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.hpp"
#include "core/verdict.hpp"
#include "graph/connections.hpp"
#include "graph/precision.hpp"

// Parts of a graph of ONNX that are an operation, spelt out or as one node: the operation's bound is proven of their
// results (docs/graphs.md section 6).
namespace attest::ops {

// The numbers of some values of a graph on one problem, one lane each.
using NumbersOfValues = std::map<int, graph::Array>;

struct SubgraphVerdict {
  Verdict verdict;    // skip, with a reason, where the numbers are of shapes or types that the bound does not know
  std::string bound;  // names the bound and its policy: "layer_norm, policy f32"
  Index element = 0;  // the evidence's place, row-major in the output
};

// One such part. Values are those of the model.
class Subgraph {
 public:
  Subgraph() = default;
  Subgraph(const Subgraph&) = delete;
  Subgraph& operator=(const Subgraph&) = delete;
  virtual ~Subgraph() = default;

  int core = -1;  // value that names it: the same in a prefix of the graph that ends before its last nodes
  int inner =
      -1;  // value that the attention within a block gives, which is judged more closely by itself; -1 of other parts
  int output = -1;             // its result
  std::vector<int> fed;        // where it begins, if it is to be asked by itself; no constants among them
  std::vector<int> judged_by;  // values whose numbers judge() asks for

  // Tells whether a correct implementation of this precision could have returned `got`, of the type and shape that the
  // part gives.
  [[nodiscard]] virtual SubgraphVerdict judge(const NumbersOfValues& numbers, const graph::Array& got,
                                              const graph::Precision& precision) const = 0;
};

// A part that looks like an operation and is none of its Subgraphs: a tensor that it gives, and why not, one clause
// without names.
struct Unrecognised {
  int value = -1;
  std::string reason;
};

// ---- of which operations make theirs

// "Tanh", "an input" or "a constant": who gives a value, where something else was looked for.
std::string giver_in_words(const graph::Connections& graph, int value);

SubgraphVerdict unjudged(std::string reason);
// Adds to `fed` what is no constant and not there yet.
void feed(Subgraph& subgraph, const graph::Connections& graph, int value);
// x as `shape`, which it must broadcast to; nullopt where it does not.
std::optional<std::vector<double>> broadcast_numbers(const graph::Array& x, std::span<const Index> shape);
// Packed, of up to four axes.
Tensor packed_tensor(std::span<const double> numbers, DType type, std::span<const Index> shape);
Index product_of(std::span<const Index> lengths);

}  // namespace attest::ops
