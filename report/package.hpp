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
  std::string name;  // of its files
  graph::Model model;
  graph::Feeds feeds;
  std::vector<graph::Array> expected;  // of its outputs, as far as they are known: none, or one each
};

// Graphs of one call. What is expected is the first one's result in float64, of whose inputs the others have the same; none of those that attest does not evaluate
// knows better.
std::vector<Packaged> packaged(std::vector<ops::NamedGraph> graphs);

// Writes each as FOLDER/NAME.onnx, and its inputs, with `expected.OUTPUT` beside them, as NAME.npz. Returns what to do with it, lines of shell. All of
// these throw Error(usage) for what cannot be written.
std::string write_onnx(std::span<const Packaged> graphs, const std::filesystem::path& folder);
// NAME.onnx, NAME-inputs.json as `polygraphy run --load-inputs` reads it and NAME-expected.json for --load-outputs. Throws Error(usage) for bfloat16, which
// NumPy has not.
std::string write_polygraphy(std::span<const Packaged> graphs, const std::filesystem::path& folder);
// NAME.onnx and a file for each input with its bare elements, as `trtexec --loadInputs` reads it. Throws Error(usage) for float64, which TensorRT has not.
std::string write_trtexec(std::span<const Packaged> graphs, const std::filesystem::path& folder);

// One of these by its name: "onnx", "polygraphy" or "trtexec".
std::string write_packages(std::string_view format, std::span<const Packaged> graphs,
                           const std::filesystem::path& folder);

}  // namespace attest::report
