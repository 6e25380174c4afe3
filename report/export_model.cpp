#include "report/export_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/error.hpp"
#include "engine/failure.hpp"
#include "ops/numpy_text.hpp"
#include "report/export_runtime.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using graph::Array;
using graph::Type;

constexpr std::size_t most_literal = 4096;   // numbers of inputs and of what is expected
constexpr std::size_t most_constants = 512;  // numbers of weights
constexpr std::string_view proven = "proven-bound";

std::string names(const std::vector<int>& values, const graph::Model& model) {
  std::vector<std::string> all;
  all.reserve(values.size());
  for (const int value : values)
    all.push_back(in_quotes(value < 0 ? std::string() : model.values[static_cast<std::size_t>(value)]));
  return fmt::format("[{}]", fmt::join(all, ", "));
}

std::string numbers(const Array& array) {
  std::vector<std::string> all;
  for (const double value : array.floats) all.push_back(python_number(value));
  for (const std::int64_t value : array.integers)
    all.push_back(array.type == Type::boolean ? (value != 0 ? "True" : "False") : fmt::format("{}", value));
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string numpy_type(Type type) {
  if (is_floating(type)) return ops::numpy_name(format_of(type));
  constexpr std::string_view types[] = {"np.int32", "np.int64", "np.bool_", "np.uint8", "np.int8"};
  return std::string(types[static_cast<int>(type) - static_cast<int>(Type::i32)]);
}

std::string array(const Array& array) {
  std::string code = fmt::format("np.array([{}], {})", numbers(array), numpy_type(array.type));
  if (array.rank() == 1) return code;
  return fmt::format("{}.reshape({})", code,
                     array.rank() == 0 ? "()" : fmt::format("{}", fmt::join(array.shape, ", ")));
}

struct AttributeText {
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    const std::string text = python_number(value);
    return text.find_first_of(".einf") == std::string::npos ? text + ".0"
                                                            : text;  // onnx tells floats from integers by it
  }
  std::string operator()(const std::string& value) const { return in_quotes(value); }
  std::string operator()(const std::vector<std::int64_t>& list) const {
    return fmt::format("[{}]", fmt::join(list, ", "));
  }
  std::string operator()(const std::vector<double>& list) const { return of(list); }
  std::string operator()(const std::vector<std::string>& list) const { return of(list); }
  std::string operator()(const graph::Stored& value) const {
    return fmt::format("numpy_helper.from_array({})", array(value.array()));
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return "None";
  }

 private:
  template <class T>
  std::string of(const std::vector<T>& list) const {
    std::vector<std::string> all;
    all.reserve(list.size());
    for (const T& one : list) all.push_back((*this)(one));
    return fmt::format("[{}]", fmt::join(all, ", "));
  }
};

std::string node_code(const graph::Node& node, const graph::Model& model) {
  std::string code =
      fmt::format("h.make_node({}, {}, {}", in_quotes(node.op), names(node.inputs, model), names(node.outputs, model));
  if (!node.name.empty()) code += ", name=" + in_quotes(node.name);
  if (!node.domain.empty()) code += ", domain=" + in_quotes(node.domain);
  for (const auto& [key, value] : node.attributes)
    code += fmt::format(", {}={}", key, std::visit(AttributeText{}, value));
  return code + ")";
}

std::string onnx_type(Type type) {
  constexpr std::string_view types[] = {"FLOAT16", "BFLOAT16", "FLOAT", "DOUBLE", "INT32",
                                        "INT64",   "BOOL",     "UINT8", "INT8"};
  return fmt::format("TensorProto.{}", types[static_cast<int>(type)]);
}

std::size_t constants_of(const graph::Model& model) {
  std::size_t all = 0;
  for (const auto& [value, constant] : model.constants) all += static_cast<std::size_t>(constant.size());
  return all;
}

// Tells if a script has the graph as a file beside it and not in words: many weights, or graphs within it.
bool lies_in_file(const graph::Model& model) {
  const auto has_body = [](const graph::Node& node) {
    return std::ranges::any_of(node.attributes, [](const auto& attribute) {
      return std::holds_alternative<std::shared_ptr<const graph::Body>>(attribute.second);
    });
  };
  return constants_of(model) > most_constants || std::ranges::any_of(model.nodes, has_body);
}

std::string feeds_code(const graph::Feeds& feeds) {
  std::vector<std::string> all;
  for (const auto& [name, feed] : feeds) all.push_back(fmt::format("{}: {}", in_quotes(name), array(feed)));
  return fmt::format("{{{}}}", fmt::join(all, ",\n         "));
}

// The types of ml_dtypes that a script names.
std::set<std::string_view> types_beyond_numpy(const models::Exhibit& exhibit) {
  std::set<std::string_view> names;
  const auto look = [&](Type type) {
    if (is_floating(type) && !traits(format_of(type)).in_numpy()) names.insert(traits(format_of(type)).library);
  };
  for (const auto& [name, feed] : exhibit.feeds) look(feed.type);
  for (const auto& [value, constant] : exhibit.model.constants) look(constant.type);
  return names;
}

// Leaves the bytes of the file in `model`.
std::string graph_code(const ExportedModel& exported) {
  const graph::Model& model = exported.exhibit.model;
  if (lies_in_file(model))
    return fmt::format("model = (Path(__file__).parent / {}).read_bytes()\n",
                       in_quotes(exported.file.generic_string()));
  std::vector<std::string> nodes, inputs, outputs, constants;
  for (const graph::Node& node : model.nodes) nodes.push_back(node_code(node, model));
  for (const graph::Input& input : model.inputs) {
    std::vector<std::string> axes;
    for (const graph::Dimension& axis : input.shape)
      axes.push_back(axis.length           ? fmt::format("{}", *axis.length)
                     : axis.symbol.empty() ? "None"
                                           : in_quotes(axis.symbol));
    inputs.push_back(fmt::format("h.make_tensor_value_info({}, {}, [{}])", in_quotes(input.name), onnx_type(input.type),
                                 fmt::join(axes, ", ")));
  }
  for (const graph::Output& output : model.outputs)
    outputs.push_back(
        fmt::format("h.make_tensor_value_info({}, {}, None)", in_quotes(output.name), onnx_type(*output.type)));
  for (const auto& [value, constant] : model.constants)
    constants.push_back(fmt::format("numpy_helper.from_array({}, {})", array(constant.array()),
                                    in_quotes(model.values[static_cast<std::size_t>(value)])));
  return fmt::format(
      "nodes = [{}]\ninputs = [{}]\noutputs = [{}]\nconstants = [{}]\n"
      "graph = h.make_graph(nodes, 'g', inputs, outputs, constants)\n"
      "model = h.make_model(graph, opset_imports=[h.make_opsetid('', {})], ir_version=10).SerializeToString()\n",
      fmt::join(nodes, ",\n         "), fmt::join(inputs, ",\n          "), fmt::join(outputs, ",\n           "),
      fmt::join(constants, ",\n             "), model.opset);
}

bool names_infinities(const std::string& code) {
  return code.find("nan") != std::string::npos || code.find("inf") != std::string::npos;
}

bool is_part(const ExportedModel& exported) { return exported.exhibit.name == "segment"; }

std::string sentence_of(const ExportedModel& exported) {
  const std::string_view law = exported.entry.law;
  if (law == proven && is_part(exported))
    return "# that interval is proven of what this graph computes; the deviations below say less\n";
  return law == "spread"
             ? ""
             : "# this law judges further runs that it derives from the problem; what follows is the problem itself\n";
}

// "size.batch=2 ..." apart, whether the graph is a part and which.
std::string what_it_is(const ExportedModel& exported) {
  if (!is_part(exported)) return "the whole model";
  return fmt::format("{} of {}, fed with right tensors", fmt::join(exported.entry.segment, ", "),
                     exported.entry.model.filename().string());
}

}  // namespace

std::string python_script(const ExportedModel& exported) {
  const models::Entry& entry = exported.entry;
  const models::Exhibit& exhibit = exported.exhibit;
  std::size_t literal_numbers = 0;
  for (const auto& [name, feed] : exhibit.feeds) literal_numbers += static_cast<std::size_t>(feed.size());
  for (const graph::Feeds& earlier : exhibit.before)
    for (const auto& [name, feed] : earlier) literal_numbers += static_cast<std::size_t>(feed.size());
  for (const graph::Spread& one : exhibit.expected)
    literal_numbers += 2 * static_cast<std::size_t>(one.reference.size());
  if (literal_numbers > most_literal)
    throw usage_error(fmt::format(
        "--to python: inputs and results have {} numbers, more than a script should spell out: take --to onnx",
        grouped(literal_numbers)));
  std::string code = ascii_line(fmt::format("# {} fails {}, version {}, build {}", entry.runtime, entry.law,
                                            entry.version, to_text(entry.build))) +
                     "\n";
  code += "# seen: " + ascii_line(entry.reason) + "\n" + sentence_of(exported);
  code += "# graph: " + ascii_line(what_it_is(exported)) + "\n# problem: " + ascii_line(entry.problem) + "\n";
  std::string body = graph_code(exported);
  body += fmt::format("feeds = {}\n", feeds_code(exhibit.feeds));
  std::vector<std::string> before;
  for (const graph::Feeds& earlier : exhibit.before) before.push_back(feeds_code(earlier));
  if (!before.empty())
    body += fmt::format("before = [{}]  # runs that come first: without them it is right\n",
                        fmt::join(before, ",\n          "));
  body +=
      "\n# Correct evaluations of this graph lie around these numbers: (where, how far one deviation is). No proof; "
      "none of thousands that were\n"
      "# tried was ten deviations away.\nexpected = {";
  for (std::size_t i = 0; i < exhibit.expected.size(); ++i) {
    const graph::Spread& spread = exhibit.expected[i];
    Array where = spread.reference, far = spread.reference;
    if (!where.floats.empty()) where.type = far.type = Type::f64;
    far.type = Type::f64;
    far.integers.clear();
    far.floats = spread.deviation;
    body += fmt::format("{}{}: ({}, {})", i == 0 ? "" : ",\n            ", in_quotes(exhibit.model.outputs[i].name),
                        array(where), array(far));
  }
  body += "}\n\n";
  bool named_numbers = names_infinities(body);
  const std::string run = run_code(exported.entry, !exhibit.before.empty());
  if (!run.empty()) {
    body += run;
  } else if (exhibit.got) {
    std::vector<std::string> given;
    for (const Array& one : *exhibit.got) given.push_back(array(one));
    named_numbers = named_numbers || std::ranges::any_of(given, names_infinities);
    body += fmt::format("# as {} gave it\ngot = [{}]\n", ascii_line(entry.runtime), fmt::join(given, ",\n       "));
  } else {
    body += fmt::format("raise SystemExit({})\n", in_quotes(entry.runtime + " gave nothing"));
  }
  body +=
      "\nfor (name, (where, deviation)), one in zip(expected.items(), got):\n"
      "    with np.errstate(all='ignore'):\n"
      "        away = np.abs(np.asarray(one).astype(np.float64) - where) / np.where(deviation > 0, deviation, 1e-300)\n"
      "    at = np.unravel_index(np.argmax(np.where(np.isnan(away), np.inf, away)), away.shape)\n"
      "    print(f'{name}[{\", \".join(map(str, at))}] got {one[at]}, expected {where[at]}: {away[at]:.3g} "
      "deviations')\n";
  std::string head = "import numpy as np\n";
  if (lies_in_file(exhibit.model))
    head = "from pathlib import Path\n\n" + head;
  else
    head += "from onnx import TensorProto, helper as h, numpy_helper\n";
  if (const auto names = types_beyond_numpy(exhibit); !names.empty())
    head += fmt::format("from ml_dtypes import {}\n", fmt::join(names, ", "));
  if (named_numbers) head += "from numpy import inf, nan\n";
  return code + head + "\n" + body;
}

std::string issue_text(const ExportedModel& exported, std::string_view system) {
  const models::Entry& entry = exported.entry;
  const bool part = is_part(exported);
  std::string text =
      fmt::format("# {}, {}: {}\n\n## What happens\n\n", ascii_line(entry.runtime), ascii_line(to_text(entry.build)),
                  entry.key.find("/fail/") != std::string::npos ? "wrong result" : ascii_line(entry.key));
  text += fmt::format("{}.\n\n", ascii_line(entry.reason));
  if (!entry.tensor.empty() && entry.law == proven)
    text += fmt::format("It ends with `{}`, which {} gives.\n\n", ascii_line(entry.tensor), ascii_line(entry.op));
  else if (!entry.tensor.empty())
    text += fmt::format(
        "The first tensor that is wrong as the only output of the graph up to it is `{}`, which {} gives.\n\n",
        ascii_line(entry.tensor), ascii_line(entry.op));
  text += "## What is expected\n\n";
  if (entry.law == proven && part)
    text +=
        "The numbers within the interval above: what an implementation that computes as it promises can return of this "
        "graph is bounded, by proof, whatever the order of its sums. The script prints how far the result is from the "
        "right one, in deviations of a few correct evaluations, which say less.\n\n";
  else
    text += fmt::format(
        "The law `{}`. Correct evaluations of this graph, that round at every node and add up in any order, lie within "
        "a few deviations of the numbers below; none of thousands that were tried was ten deviations away (no "
        "proof).\n\n",
        ascii_line(entry.law));
  text += fmt::format("## To reproduce\n\nThe graph is {}.\n\n```python\n{}```\n\n", ascii_line(what_it_is(exported)),
                      python_script(exported));
  text += fmt::format("## What was tried\n\n- {}\n- Quote here what the documents promise.\n",
                      entry.minimal ? "No shorter axis and no simpler input fails in this way."
                                    : "The problem may not be the smallest.");
  if (part) text += "- The nodes before are right: what they give is what feeds this graph.\n";
  return text + fmt::format("\n## Environment\n\n- {} {}\n- {}\n- found by attest {}\n", ascii_line(entry.runtime),
                            ascii_line(entry.version), system, engine::attest_version());
}

}  // namespace attest::report
