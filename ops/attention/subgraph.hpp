#pragma once
#include <memory>
#include <optional>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "ops/subgraph.hpp"

// What parts of a graph that are attention have in common, spelt out (subgraph.cpp) or one node (subgraph_operator.cpp).
namespace attest::ops::of_attention {

inline constexpr Index most_scores = Index{1} << 24;

// The verdict on `out` of a call between tensors of the problem's format, softmax of numbers in `softmax`, of a runtime that computes in `precision`.
SubgraphVerdict verdict_on(const graph::Precision& precision, const attest::Problem& problem, const Inputs& inputs,
                           Format softmax, const Tensor& out);
// Of a floating-point type as files number it; nullopt of another one.
std::optional<Format> format_numbered(Index type);
// A node Attention of ONNX.
std::unique_ptr<Subgraph> operator_of(const graph::Connections& graph, const graph::Node& node);

}  // namespace attest::ops::of_attention
