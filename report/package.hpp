#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.hpp"
#include "ops/exchange.hpp"

namespace attest::report {

// A graph on given inputs, for a program of somebody else.
struct Packaged {
  std::string name;  // the name of its files
  graph::Model model;
  graph::Feeds feeds;
  std::vector<graph::Array> expected;  // its outputs, as far as they are known: none, or one each
};

// Packages the graphs of one call. `expected` is the first one's result in float64, for the others have the same
// inputs; a graph that attest does not evaluate knows no better result.
std::vector<Packaged> packaged(std::vector<ops::NamedGraph> graphs);

// Writes each into FOLDER as "onnx" (NAME.onnx, and its inputs, with `expected.OUTPUT` beside them, as NAME.npz),
// "polygraphy" (NAME.onnx, NAME-inputs.json and NAME-expected.json, which Polygraphy loads) or "trtexec" (NAME.onnx and
// a file for each input with its bare elements). Returns what to do with it, lines of shell. Throws Error(usage) for
// what cannot be written: bfloat16, which NumPy and so Polygraphy has not, float64, which TensorRT has not.
std::string write_packages(std::string_view format, std::span<const Packaged> graphs,
                           const std::filesystem::path& folder);

}  // namespace attest::report
