#include "models/judged.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/digest.hpp"
#include "engine/file.hpp"
#include "models/given.hpp"
#include "models/laws.hpp"
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
    if (const auto type = static_cast<NamedArray::Type>(right.type); holds_bits_of(given[i], type))
      given[i].type = type;
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

namespace {

constexpr std::string_view result_prefix = "got.";    // of results, in the file beside an entry
constexpr std::string_view saved_level = "saved";     // the build of a runtime that nobody asks
constexpr std::uintmax_t largest_saved = 1ULL << 32;  // bytes

std::vector<NamedArray> saved_outputs(const Entry& entry) {
  std::string bytes;
  try {
    bytes = engine::read_file(entry.outputs, largest_saved);
  } catch (const Error& error) {
    throw Error(Exit::no_subject, fmt::format("the results of the entry cannot be read: {}", error.what()));
  }
  if (hex64(digest_of(bytes)) != entry.outputs_digest)
    throw Error(Exit::no_subject, fmt::format("{} does not hold the results that the entry was made with: they have "
                                              "changed",
                                              entry.outputs.string()));
  std::vector<NamedArray> results;
  for (NamedArray& array : load_npz(entry.outputs)) {
    if (!array.name.starts_with(result_prefix)) continue;
    array.name.erase(0, result_prefix.size());
    results.push_back(std::move(array));
  }
  return results;
}

class SavedRuntime : public Runtime {
 public:
  SavedRuntime(std::string name, std::vector<NamedArray> outputs) : outputs_(std::move(outputs)) {
    info_.name = std::move(name);
    info_.builds = {std::string(saved_level)};
  }
  [[nodiscard]] const RuntimeInfo& info() const noexcept override { return info_; }
  Answer run(const Part& part, const Build& /*build*/, const graph::Feeds& /*feeds*/, std::size_t /*room*/,
             Freshness on) override {
    Answer answer{{}, {}, on};
    for (const graph::Output& output : part.program->model().outputs) {
      const auto found = std::ranges::find(outputs_, output.name, &NamedArray::name);
      if (found == outputs_.end()) return {{CallStatus::error, "it has no output '" + output.name + "'"}, {}, on};
      NamedArray one = *found;
      const auto type = output.type ? output.type : output.said;
      if (type == graph::Type::bf16 && one.type == NamedArray::Type::u16) one.type = NamedArray::Type::bf16;
      answer.outputs.push_back(array_of(one));
    }
    return answer;
  }

 private:
  std::vector<NamedArray> outputs_;
  RuntimeInfo info_;
};

Part with_outputs(Part model, std::span<const NamedArray> results) {
  graph::Model asked = model.program->model();
  std::erase_if(asked.outputs, [&](const graph::Output& output) {
    return std::ranges::find(results, output.name, &NamedArray::name) == results.end();
  });
  model.program = std::make_unique<const graph::Program>(std::move(asked));
  return model;
}

}  // namespace

std::unique_ptr<Runtime> saved_runtime(const Entry& entry) {
  return std::make_unique<SavedRuntime>(entry.runtime, saved_outputs(entry));
}

Part with_saved_outputs(Part model, const Entry& entry) { return with_outputs(std::move(model), saved_outputs(entry)); }

std::filesystem::path store_judged(const SavedFailure& failure, const std::filesystem::path& corpus) {
  const Part model = with_outputs(part_of_file(failure.bytes, failure.model.filename().string()), failure.outputs);
  const auto sets = std::make_shared<const std::vector<graph::Feeds>>(1, failure.feeds);
  graph::Constraints constraints;
  constraints.given = sets;
  graph::Problem problem = graph::Family(*model.program, constraints).draw(seed, 0);  // the inputs as they are
  problem.seed = seed;
  Entry entry;
  entry.model = std::filesystem::absolute(failure.model);
  entry.model_digest = hex64(digest_of(failure.bytes));
  entry.runtime = "saved:" + engine::file_name_of(failure.where.filename().string());
  entry.build.level = saved_level;
  entry.policy = failure.precision.name;
  entry.law = "spread";
  entry.problem = entry.original = to_text(problem);
  entry.seed = seed;
  SavedRuntime runtime(entry.runtime, {failure.outputs.begin(), failure.outputs.end()});
  Case one(model, failure.feeds, failure.precision, seed);
  const LawResult result = ask(law_named(entry.law), {one, runtime, entry.build});
  if (result.kind != VerdictKind::fail)
    throw usage_error("a runtime that gave these results would not be blamed for them: " + result.reason);
  entry.key = failure_key(entry.law, result);
  entry.reason = result.reason;
  entry.z = result.z;
  NpzFile tensors;
  tensors.add({}, failure.feeds);
  for (const NamedArray& array : failure.outputs)
    if (std::ranges::find(model.program->model().outputs, array.name, &graph::Output::name) !=
        model.program->model().outputs.end())
      tensors.add(fmt::format("{}{}", result_prefix, array.name), array_of(array));
  const std::string bytes = tensors.bytes();
  entry.outputs_digest = hex64(digest_of(bytes));
  entry.inputs = entry.outputs = std::filesystem::absolute(file_of(entry, corpus).replace_extension(".npz"));
  engine::write_file(entry.outputs, bytes);
  entry.inputs_digest = read_given(entry.inputs, *model.program, {}).digest;
  return write_entry(entry, std::nullopt, corpus);
}

}  // namespace attest::models
