// Judges saved results of runtimes, for tests written in Python.
// Usage: graph_judge MODEL.onnx PRECISION SEED INPUTS.npz OUTPUTS.npz [INPUTS.npz OUTPUTS.npz ...]
// Prints a line for each pair: outcome, z, T (- where there is none), members, judged and undetermined elements,
// witness. With SPREAD=1 in the environment also a line "spread OUTPUT i r s" for each element. Ends with 2 where
// something is refused.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "core/error.hpp"
#include "core/npz.hpp"
#include "graph/ensemble.hpp"
#include "graph/read.hpp"

namespace {

using namespace attest;
using graph::Array;
using graph::Type;

Type type_of(const NamedArray& array) {
  constexpr Type types[] = {Type::f16, Type::bf16, Type::f32, Type::f64, Type::i32, Type::i64, Type::boolean};
  if (array.type > NamedArray::Type::boolean) throw usage_error(array.name + ": " + array.descr);
  return types[static_cast<int>(array.type)];
}

Array array_from(const NamedArray& saved) {
  Array array{type_of(saved), saved.shape, 1, {}, {}};
  std::vector<double> numbers(static_cast<std::size_t>(saved.size()));
  saved.read(0, numbers);
  if (graph::is_floating(array.type))
    array.floats = numbers;
  else
    for (const double number : numbers) array.integers.push_back(static_cast<std::int64_t>(number));
  return array;
}

std::string outcome(graph::Judgement::Outcome outcome) {
  constexpr const char* words[] = {"held", "failed", "vacuous"};
  return words[static_cast<int>(outcome)];
}

int run(int count, char** words) {
  const graph::Program program(graph::load_model(words[1]));
  const graph::Precision precision = graph::precision_from_text(words[2]);
  std::unique_ptr<graph::Ensemble> ensemble;
  std::string inputs;
  for (int i = 4; i + 1 < count; i += 2) {
    if (inputs != words[i]) {
      inputs = words[i];
      graph::Feeds feeds;
      for (const NamedArray& one : load_npz(words[i])) feeds.emplace(one.name, array_from(one));
      ensemble =
          std::make_unique<graph::Ensemble>(program, std::move(feeds), precision, std::strtoull(words[3], nullptr, 10));
    }
    std::vector<Array> outputs;
    const auto saved = load_npz(words[i + 1]);
    for (const auto& output : program.model().outputs)
      for (const NamedArray& one : saved)
        if (one.name == output.name) outputs.push_back(array_from(one));
    const auto judged = ensemble->judge(outputs);
    fmt::print("{} {} {} {} {} {} {}\n", outcome(judged.outcome), judged.z, judged.t ? fmt::to_string(*judged.t) : "-",
               judged.members, judged.judged, judged.undetermined,
               judged.witness ? fmt::format("{}[{}] {} for {} +- {}", judged.witness->output, judged.witness->element,
                                            judged.witness->got, judged.witness->expected, judged.witness->deviation)
                              : judged.mismatch);
    if (std::getenv("SPREAD") == nullptr) continue;
    const auto& spreads = ensemble->spreads(graph::many_members);
    for (std::size_t o = 0; o < spreads.size(); ++o)
      for (std::size_t e = 0; e < spreads[o].reference.floats.size(); ++e)
        fmt::print("spread {} {} {} {}\n", program.model().outputs[o].name, e, spreads[o].reference.floats[e],
                   spreads[o].deviation[e]);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 6) return 2;
  try {
    return run(count, words);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
