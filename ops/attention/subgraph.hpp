#pragma once
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "ops/subgraph.hpp"

// The functions that both spellings of attention in a graph share, spelt out (subgraph.cpp) or one node
// (subgraph_operator.cpp), and that blocks around them (ops/mha/subgraph.hpp) call.
namespace attest::ops::of_attention {

inline constexpr Index most_scores = Index{1} << 24;

// The contract of a runtime of this precision between tensors of type `storage`, with softmax of numbers in `softmax`.
attest::Contract contract_of(const graph::Precision& precision, Format storage, Format softmax);
// The verdict on `out` of a call between tensors of the problem's format, with softmax of numbers in `softmax`, by a
// runtime that computes in `precision`.
SubgraphVerdict verdict_on(const graph::Precision& precision, const attest::Problem& problem, const Inputs& inputs,
                           Format softmax, const Tensor& out);
// The format of a floating-point type as files number it; nullopt for another type.
std::optional<Format> format_numbered(Index type);

// ---- spelt out: subgraph.cpp

// A tensor of one element by which another one is multiplied or divided.
struct Scaling {
  int value = -1;
  bool divides = false;
};
// Returns the value that a node scales to `value`, and its factor; nullopt if no node does.
std::optional<std::pair<int, Scaling>> scaled(const graph::Connections& graph, int value);

// softmax(scale q k^T + bias) v. Values are those of the model.
struct Spelt {
  int q = -1, k_transposed = -1, v = -1;       // as products of matrices read them, before they are scaled
  std::vector<Scaling> of_q, of_k, of_scores;  // one at most of q and of k, two of the product
  std::optional<int> bias;                     // added to what is scaled
  struct Choice {                              // Where: scores, or one number
    int flags = -1;
    bool keeps_where_true = true;
    int closed = -1;  // the number
    bool before_bias = false;
  };
  std::optional<Choice> choice;
  int softmax_input = -1;       // the value whose type softmax is computed in
  Index softmax_axis = -1;      // must be the last one
  std::vector<Format> casts{};  // between the products
};
// Returns the attention that ends in this product of weights and values; nullopt if none does.
std::optional<Spelt> spelt_out(const graph::Connections& graph, const graph::Node& product);
// The values beside q, k and v: scales, bias, flags and what stands where these close.
std::vector<int> beside(const Spelt& nodes);

// The sizes and operands of such a part on a problem: one sample of one head for each leading index of its result.
struct SpeltCall {
  std::string unjudged;        // why no bound speaks of it; empty where one does
  std::vector<Index> leading;  // lengths of those indices
  Index samples = 0, rows = 0, keys = 0, d = 0, dv = 0;
  Format format = Format::f32, softmax = Format::f32;
  double scale = 1;
  std::optional<std::vector<double>> bias;  // [samples, rows, keys]
  Format bias_format = Format::f32;
  std::vector<double> flags;  // likewise, of a choice, with the number that it closes by
  double closed = 0;

  // The leading lengths and these two.
  [[nodiscard]] std::vector<Index> with(Index a, Index b) const {
    std::vector<Index> shape = leading;
    shape.insert(shape.end(), {a, b});
    return shape;
  }
};
// `numbers`: those of q, k_transposed, v, softmax_input and beside(); `got`: the part's result, whose type and shape
// count.
SpeltCall call_of(const Spelt& nodes, const NumbersOfValues& numbers, const graph::Array& got);
// [samples, keys, d] of what a product reads as [.., d, keys]; nullopt where that does not broadcast.
std::optional<std::vector<double>> rows_of_keys(const graph::Array& transposed, const SpeltCall& call);

// q [samples, rows, d] and k [samples, keys, d] of a call, with what each element is made of, in magnitude; empty:
// itself. Computed scores are off by less than one `share`-th of the sum of products of these.
struct Factors {
  std::span<const double> queries, keys, sizes_of_queries, sizes_of_keys;
  double share;
};
// Keys that Where leaves open, 1 or 0 over [samples, rows, keys]. It sets the score of the others to a number, perhaps
// a finite one, where the operation leaves keys out: that is the same where no conforming weight of such a key is more
// than 0. Rows of which that is not sure keep no key, and are judged by nobody.
std::vector<double> kept(const Spelt::Choice& choice, const SpeltCall& call, const Factors& of);

// ---- one node: subgraph_operator.cpp

// Attention of operator versions 23 and on.
struct Fused {
  int q = -1, k = -1, v = -1, mask = -1;  // no mask: -1
  Index heads = 0, kv_heads = 0;          // for tensors of three axes
  std::optional<double> scale;
  bool causal = false;
  std::optional<Format> softmax;
};
// The node's attention without a softcap, a past and lengths, which are not evaluated either.
Fused fused_of(const graph::Node& node);

// [batch, heads, length, width], whether heads have an axis of their own or lie side by side in the last one.
struct Heads {
  Heads(const graph::Array& x, Index heads_of_three);
  [[nodiscard]] Index place(const std::array<Index, 4>& at) const {
    return three ? ((at[0] * length + at[2]) * heads + at[1]) * width + at[3]
                 : ((at[0] * heads + at[1]) * length + at[2]) * width + at[3];
  }
  bool three = false;
  Index batch = 0, heads = 0, length = 0, width = 0;
};
// Tells if a node Attention of ONNX is one that a bound is proven of: no past keys, lengths, windows or softcap, and
// its first output alone.
bool is_plain(const graph::Node& node);
// The part that such a node is.
std::unique_ptr<Subgraph> operator_of(const graph::Connections& graph, const graph::Node& node);

}  // namespace attest::ops::of_attention
