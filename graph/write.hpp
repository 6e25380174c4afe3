#pragma once
#include <string>

#include "graph/model.hpp"

namespace attest::graph {

// `model` as an ONNX file (onnx.proto3 of https://github.com/onnx/onnx), from which read_model gives the same graph:
// nodes with their names and attributes, constants as initialisers with raw bytes, inputs with types and axes, outputs
// by name alone. The parts that read_model passes over are left out. Throws Error(usage) naming a node that has an
// attribute that attest does not read.
std::string write_model(const Model& model);

}  // namespace attest::graph
