// Holds graphs, as attest reads and writes them, to results that are known, for a test written in Python.
// Usage: graph_exam                     prints the operators that attest evaluates
//        graph_exam CASE.onnx ...       each beside CASE.data.onnx, which has inputs and outputs as initialisers
// Prints a line for each case: "held", "wrong" or "refused", and why. A float must lie within failing_z deviations of
// the ensemble or be the reference; an integer must be the reference, but where ONNX leaves it open. "blind" is a case
// in which an output that is off in its first element that is not left open would be held too.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "graph/ensemble.hpp"
#include "graph/operators.hpp"
#include "graph/read.hpp"
#include "graph/write.hpp"

namespace {

using namespace attest;
using graph::Array;

// The first difference of `got` from what may come; "" where there is none.
std::string difference(const Array& got, const graph::Spread& spread) {
  const Array& expected = spread.reference;
  if (got.type != expected.type || got.shape != expected.shape)
    return fmt::format("{} {} in place of {} {}", name(expected.type), graph::shape_text(expected.shape),
                       name(got.type), graph::shape_text(got.shape));
  for (std::size_t i = 0; i < got.floats.size(); ++i) {
    const double x = got.floats[i], r = expected.floats[i], s = spread.deviation[i];
    const bool same = x == r || (std::isnan(x) && std::isnan(r));
    if (!same && !(std::isfinite(s) && std::fabs(x - r) <= graph::failing_z * s))
      return fmt::format("element {}: {} +- {} in place of {}", i, r, s, x);
  }
  for (std::size_t i = 0; i < got.integers.size(); ++i)
    if (got.integers[i] != expected.integers[i] && spread.deviation[i] == 0)
      return fmt::format("element {}: {} in place of {}", i, expected.integers[i], got.integers[i]);
  return "";
}

Array disturbed(Array x, const std::vector<double>& deviation) {
  if (!x.floats.empty()) x.floats[0] = std::isfinite(x.floats[0]) ? 1 + 2 * std::fabs(x.floats[0]) : 0;
  for (std::size_t i = 0; i < x.integers.size(); ++i) {
    if (deviation[i] != 0) continue;
    x.integers[i] = x.type == graph::Type::boolean ? 1 - x.integers[i] : x.integers[i] ^ 1;
    break;
  }
  return x;
}

std::string asked(const std::filesystem::path& file) {
  const graph::Program program(graph::read_model(graph::write_model(graph::load_model(file)), file.string()));
  auto data = file;
  const graph::Model known = graph::load_model(data.replace_extension(".data.onnx"));
  const auto value_of = [&known](const std::string& name) -> Array {
    for (const auto& [value, array] : known.constants)
      if (known.values[static_cast<std::size_t>(value)] == name) return array.array();
    throw usage_error(fmt::format("nothing is known of '{}'", name));
  };
  graph::Feeds feeds;
  for (const graph::Input& input : program.model().inputs) feeds.emplace(input.name, value_of(input.name));
  graph::Ensemble ensemble(program, feeds, {}, 1);
  const auto& spreads = ensemble.spreads(graph::many_members);
  bool sees = false;
  for (std::size_t o = 0; o < spreads.size(); ++o) {
    const std::string& name = program.model().outputs[o].name;
    const Array expected = value_of(name);
    if (const std::string why = difference(expected, spreads[o]); !why.empty())
      return fmt::format("wrong\t'{}' {}", name, why);
    sees = sees || expected.size() == 0 || !difference(disturbed(expected, spreads[o].deviation), spreads[o]).empty();
  }
  return sees ? "held\t" : "blind\t";
}

}  // namespace

int main(int count, char** words) {
  if (count == 1) fmt::print("{}\n", graph::operator_names());
  for (int i = 1; i < count; ++i) {
    try {
      fmt::print("{}\n", asked(words[i]));
    } catch (const Error& error) {
      fmt::print("refused\t{}\n", error.what());
    }
  }
  return 0;
}
