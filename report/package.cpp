#include "report/package.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/file.hpp"
#include "graph/raw.hpp"
#include "graph/write.hpp"
#include "models/tensors.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

namespace fs = std::filesystem;
using graph::Array;
using graph::Type;
using nlohmann::ordered_json;

fs::path write_graph(const Packaged& one, const fs::path& folder) {
  fs::path file = folder / (one.name + ".onnx");
  engine::write_file(file, graph::write_model(one.model));
  return file;
}

// RFC 4648, section 4.
std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < have ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += k <= have ? digits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

// A NumPy array as polygraphy.json has it: an .npy as text.
ordered_json polygraphy_array(const Array& array, const std::string& name) {
  if (is_floating(array.type) && !traits(format_of(array.type)).in_numpy())
    throw usage_error(fmt::format("--to polygraphy: '{}' is {}, which NumPy and so Polygraphy's files do not have",
                                  name, graph::name(array.type)));
  return {{"array", base64(models::npy_bytes(array))}, {"polygraphy_class", "ndarray"}};
}

// A name as trtexec --help has it: wrapped in single quotes where it holds a character that parts a spec.
std::string trtexec_name(const std::string& name) {
  return name.find_first_of(":,") == std::string::npos ? name : "'" + name + "'";
}

// NAME.onnx, and NAME.npz with its inputs and `expected.OUTPUT` beside them.
std::string write_onnx(std::span<const Packaged> graphs, const fs::path& folder) {
  std::string lines;
  for (const Packaged& one : graphs) {
    const fs::path file = write_graph(one, folder);
    models::NpzFile tensors;
    for (const auto& [name, array] : one.feeds) tensors.add(name, array);
    for (std::size_t i = 0; i < one.expected.size(); ++i)
      tensors.add("expected." + one.model.outputs[i].name, one.expected[i]);
    engine::write_file(folder / (one.name + ".npz"), tensors.bytes());
    lines += fmt::format("{}  # inputs, and what is expected, in {}.npz\n", shell_quoted(file.string()), one.name);
  }
  return lines;
}

// NAME.onnx, NAME-inputs.json as `polygraphy run --load-inputs` reads it and NAME-expected.json for --load-outputs.
std::string write_polygraphy(std::span<const Packaged> graphs, const fs::path& folder) {
  std::string lines;
  for (const Packaged& one : graphs) {
    ordered_json inputs = ordered_json::object(), outputs = ordered_json::object();
    for (const auto& [name, array] : one.feeds) inputs[name] = polygraphy_array(array, name);
    for (std::size_t i = 0; i < one.expected.size(); ++i) {
      const std::string& name = one.model.outputs[i].name;
      outputs[name] = {{"values", polygraphy_array(one.expected[i], name)}, {"polygraphy_class", "LazyArray"}};
    }
    const fs::path file = write_graph(one, folder);
    const fs::path feed = folder / (one.name + "-inputs.json"), expected = folder / (one.name + "-expected.json");
    engine::write_file(feed, json_text(ordered_json::array({inputs})) + "\n");
    std::string line = fmt::format("polygraphy run {} --onnxrt --load-inputs {}", shell_quoted(file.string()),
                                   shell_quoted(feed.string()));
    if (!outputs.empty()) {
      const ordered_json iteration{
          {"outputs", outputs}, {"runtime", 0.0}, {"runner_name", "expected"}, {"polygraphy_class", "IterationResult"}};
      const ordered_json runner = ordered_json::array({"expected", ordered_json::array({iteration})});
      engine::write_file(
          expected,
          json_text(ordered_json{{"lst", ordered_json::array({runner})}, {"polygraphy_class", "RunResults"}}) + "\n");
      line += " --load-outputs " + shell_quoted(expected.string());
    }
    lines += line + "\n";
  }
  return lines;
}

// NAME.onnx and a file for each input with its bare elements, as `trtexec --loadInputs` reads it.
std::string write_trtexec(std::span<const Packaged> graphs, const fs::path& folder) {
  std::string lines;
  for (const Packaged& one : graphs) {
    std::vector<std::string> inputs, shapes;
    for (const graph::Input& input : one.model.inputs) {
      const Array& array = one.feeds.at(input.name);
      if (array.type == Type::f64)
        throw usage_error(fmt::format("--to trtexec: '{}' is float64, which TensorRT has not", input.name));
      const std::string name = engine::file_name_of(one.name + "-" + input.name) + ".bin";
      engine::write_file(folder / name, graph::raw_bytes(array));
      inputs.push_back(fmt::format("{}:{}", trtexec_name(input.name), (folder / name).string()));
      // An axis that is fixed has no shape to give.
      if (std::ranges::any_of(input.shape, [](const graph::Dimension& axis) { return !axis.length; }))
        shapes.push_back(fmt::format("{}:{}", trtexec_name(input.name), fmt::join(array.shape, "x")));
    }
    const fs::path file = write_graph(one, folder);
    std::string line = fmt::format("trtexec {} {} --dumpOutput", shell_quoted("--onnx=" + file.string()),
                                   shell_quoted(fmt::format("--loadInputs={}", fmt::join(inputs, ","))));
    if (!shapes.empty()) line += " " + shell_quoted(fmt::format("--shapes={}", fmt::join(shapes, ",")));
    lines += line + "\n";
  }
  engine::write_file(folder / "trtexec.sh", lines);
  return lines;
}

}  // namespace

std::vector<Packaged> packaged(std::vector<ops::NamedGraph> graphs) {
  std::vector<Packaged> all;
  std::vector<Array> expected;
  for (ops::NamedGraph& one : graphs) {
    if (all.empty()) expected = graph::Program(one.model).run(one.feeds);
    all.push_back({std::move(one.name), std::move(one.model), std::move(one.feeds), expected});
  }
  return all;
}

std::string write_packages(std::string_view format, std::span<const Packaged> graphs, const fs::path& folder) {
  return format == "onnx"         ? write_onnx(graphs, folder)
         : format == "polygraphy" ? write_polygraphy(graphs, folder)
                                  : write_trtexec(graphs, folder);
}

}  // namespace attest::report
