#include "models/judged.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "models/tensors.hpp"

namespace attest::models {
namespace {

constexpr std::uint64_t seed = 1;  // the ensemble's: the same verdict each time

JudgedOutput judged(const std::string& name, const graph::Array& got, const graph::Spread& spread) {
  JudgedOutput one{name, got.shape, got.size()};
  for (std::size_t i = 0; i < spread.deviation.size(); ++i) {
    const auto [at, z, determined] = graph::scored(name, got, spread, i);
    if (!determined) continue;
    ++one.judged;
    if (z > graph::failing_z && one.wrong++ == 0) one.first = at;
    if (!one.worst || z > one.z) {
      one.worst = at;
      one.z = z;
    }
  }
  return one;
}

}  // namespace

Exit JudgedOutputs::exit() const noexcept {
  if (verdict.outcome == graph::Judgement::Outcome::failed) return Exit::found;
  return verdict.outcome == graph::Judgement::Outcome::vacuous ? Exit::incomplete : Exit::held;
}

JudgedOutputs judge_outputs(const graph::Model& model, const graph::Feeds& feeds, std::span<const NamedArray> outputs,
                            const graph::Precision& precision, const std::string& where) {
  JudgedOutputs told;
  graph::Model asked = model;
  asked.outputs.clear();
  std::vector<NamedArray> given;
  for (const graph::Output& output : model.outputs) {
    const auto found = std::ranges::find(outputs, output.name, &NamedArray::name);
    if (found == outputs.end()) {
      told.absent.push_back(output.name);
      continue;
    }
    asked.outputs.push_back(output);
    given.push_back(*found);
  }
  if (given.empty())
    throw usage_error(fmt::format("{}: it has none of the model's outputs, which are {}: save them by these names",
                                  where, fmt::join(told.absent, ", ")));
  const graph::Program program(std::move(asked));
  graph::Ensemble ensemble(program, feeds, precision, seed);
  std::vector<graph::Array> got;
  const auto& few = ensemble.spreads(graph::few_members);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const graph::Array& right = few[i].reference;
    if (right.type == graph::Type::bf16 && given[i].type == NamedArray::Type::u16)
      given[i].type = NamedArray::Type::bf16;
    if (given[i].type != static_cast<NamedArray::Type>(right.type) || given[i].shape != right.shape)
      throw usage_error(fmt::format("{}: '{}' is {}, and on these inputs the model gives {} {}", where, given[i].name,
                                    given[i].described(), graph::name(right.type), graph::shape_text(right.shape)));
    got.push_back(array_of(given[i]));
  }
  told.verdict = ensemble.judge(got);
  const auto& spreads = ensemble.spreads(told.verdict.members);
  for (std::size_t i = 0; i < given.size(); ++i) told.outputs.push_back(judged(given[i].name, got[i], spreads[i]));
  return told;
}

}  // namespace attest::models
