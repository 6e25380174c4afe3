#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/contract_option.hpp"
#include "cli/outputs.hpp"
#include "cli/saved_call_option.hpp"
#include "cli/settings.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/explain/explain.hpp"
#include "engine/file.hpp"
#include "engine/saved_tensors.hpp"
#include "graph/read.hpp"
#include "graph/weights.hpp"
#include "models/given.hpp"
#include "models/judged.hpp"
#include "report/explain.hpp"
#include "report/judge.hpp"
#include "report/models.hpp"
#include "report/text.hpp"
#include "subjects/started.hpp"

namespace attest::cli {
namespace {

// Options of judge that a model takes.
constexpr std::array<std::string_view, 9> of_models{"model",     "inputs", "outputs", "policy", "runner",
                                                    "iteration", "corpus", "json",    "color"};

std::vector<Option> judge_options() {
  std::vector<Option> options = contract_options();
  for (const Option& option : std::vector<Option>{
           {"inputs", "FILE",
            "q, k, v (or x, w_q, ...) and what else went in: .npz, or Polygraphy's --save-inputs JSON"},
           {"outputs", "FILE",
            "out and perhaps lse (or sum_out, or stages): .npz, .npy, or Polygraphy's --save-outputs JSON"},
           {"model", "FILE", "of a model: the .onnx whose inputs and outputs these are; nothing is run"},
           {"op", "OP", "what was called: attention, layer_norm or mha (attention)"},
           {"runner", "NAME", "of Polygraphy's outputs of several runners"},
           {"iteration", "N", "of Polygraphy's files (0)"},
           {"corpus", "DIR|none", "where a failure is stored (attest-out/judge/corpus)"},
           {"json", "FILE", "one JSON object; - is stdout"},
           color_option(),
       })
    options.push_back(option);
  for (const Option& option : saved_call_options()) options.push_back(option);
  return options;
}

std::string needed(const Settings& settings, std::string_view key) {
  const auto text = settings.text(key);
  if (!text) throw usage_error(fmt::format("--{} FILE is needed: the saved tensors of the run", key));
  return *text;
}

// Explains wrong numbers of a call: the other promises that they would fit, and the planted faults that give them.
// Nothing if they hold.
std::optional<engine::Explanation> explained(const ops::SavedCall& call, const ops::Contract& contract,
                                             const engine::Judgement& judgement) {
  if (judgement.verdict.kind != VerdictKind::fail) return std::nullopt;
  engine::ExplainLimits limits;
  limits.seconds = 10;
  const Call made = call.exchange->call();
  if (!contract.op().reading(made)) return std::nullopt;  // an operation that is not told, of which nothing fits
  auto kept = engine::KeptCall::before(made, engine::Witnessing::most_bytes);
  if (!kept) return std::nullopt;
  kept->after(made, {});
  return engine::explain_call(*kept, contract.op(), contract, limits);
}

std::unique_ptr<OutputFile> json_beside(const Settings& settings, const std::string& inputs,
                                        const std::string& outputs) {
  const auto path = settings.text("json");
  if (!path) return nullptr;
  std::error_code missing;
  for (const std::string& tensors : {inputs, outputs})
    if (std::filesystem::equivalent(*path, tensors, missing))
      throw usage_error(fmt::format("--json {}: that file holds the saved tensors: name another", *path));
  return std::make_unique<OutputFile>(*path, "--json");
}

// Stores a failure by `store` of a corpus, and returns the file; empty where nothing failed or is to be stored, and with
// a note on stderr where that cannot be.
std::string stored(const Settings& settings, bool failed,
                   const std::function<std::filesystem::path(const std::string& corpus)>& store) {
  const std::string corpus = settings.text("corpus").value_or("attest-out/judge/corpus");
  if (!failed || corpus == "none") return {};
  try {
    return store(corpus).string();
  } catch (const Error& error) {
    if (error.exit() != Exit::usage) throw;
    std::cerr << "attest: note: no reproducer is stored: " << report::printable(error.what()) << "\n";
    return {};
  }
}

std::string stored_line(const std::string& reproducer) {
  return reproducer.empty() ? std::string() : fmt::format("  stored     {}\n", report::printable(reproducer));
}

int judge_model(const Settings& settings, const std::string& model) {
  for (const Option& option : judge_options())
    if (settings.text(option.name) && std::ranges::find(of_models, option.name) == of_models.end())
      throw usage_error(fmt::format("{} is not for models: judge --model takes {}", settings.origin(option.name),
                                    fmt::join(of_models, ", ")));
  const std::string inputs = needed(settings, "inputs"), outputs = needed(settings, "outputs");
  const graph::Precision precision = graph::precision_from_text(settings.text("policy").value_or("literal"));
  constexpr std::uintmax_t largest_model = std::uintmax_t{1} << 31;  // the most that protobuf holds
  const std::string bytes = graph::with_weights(engine::read_file(model, largest_model), model);
  const graph::Program program(graph::read_model(std::make_shared<const std::string>(bytes), model));
  const auto json = json_beside(settings, inputs, outputs);
  engine::SavedRun run;
  run.iteration = static_cast<std::size_t>(count_of(settings, "iteration", 0).value_or(0));
  const graph::Feeds feeds = models::given_feeds(engine::read_saved_tensors(inputs, run), program, {}, inputs);
  run.runner = settings.text("runner");
  const std::vector<NamedArray> out = engine::read_saved_tensors(outputs, run);
  const models::JudgedOutputs judged = models::judge_outputs(program.model(), feeds, out, precision, outputs);
  const std::string reproducer = stored(settings, judged.exit() == Exit::found, [&](const std::string& corpus) {
    note_started(model);  // the user has named it: an entry may, too
    return models::store_judged({model, bytes, feeds, out, precision, outputs}, corpus);
  });
  if (!json || !json->is_stdout())
    std::cout << fmt::format("attest judge {} --model {}\n", report::printable(outputs), report::printable(model))
              << report::judged_text(judged, precision, read_look(settings)) << stored_line(reproducer);
  if (json) {
    auto object = report::judged_json(judged, precision);
    if (!reproducer.empty()) object["reproducer"] = reproducer;
    object["model"] = model;
    object["inputs"] = inputs;
    object["outputs"] = outputs;
    object["exit"] = static_cast<int>(judged.exit());
    write_json(*json, object);
  }
  if (judged.exit() == Exit::incomplete)
    throw Error(judged.exit(), "nothing judged: under this policy correct results may be anything for these inputs");
  return static_cast<int>(judged.exit());
}

int judge_files(const Settings& settings) {
  if (const auto model = settings.text("model")) return judge_model(settings, *model);
  const ops::Op& op = saved_op(settings);
  const ops::Contract contract = read_contract(settings, op);
  const std::string inputs = needed(settings, "inputs"), outputs = needed(settings, "outputs");
  const auto json = json_beside(settings, inputs, outputs);
  engine::SavedRun run;
  run.iteration = static_cast<std::size_t>(count_of(settings, "iteration", 0).value_or(0));
  const auto in = engine::read_saved_tensors(inputs, run);
  run.runner = settings.text("runner");
  const auto out = engine::read_saved_tensors(outputs, run);
  const ops::SavedCall call = op.saved_call(in, out, policy_of(contract), saved_words(settings));
  if (op.without_elements(call.exchange->problem()))
    throw usage_error(outputs + ": out has no elements: there is nothing to judge");
  engine::Judgement judgement = engine::judge(*call.exchange, contract);
  if (judgement.verdict.kind == VerdictKind::fail)
    judgement.others = engine::judge_other_calls(op, in, out, saved_words(settings), contract, judgement, 10);
  const Exit exit = judgement.exit();
  const std::optional<engine::Explanation> explanation = explained(call, contract, judgement);
  const std::string reproducer = stored(settings, exit == Exit::found, [&](const std::string& corpus) {
    return engine::store_judged(call, contract, judgement, outputs, corpus);
  });
  if (!json || !json->is_stdout())
    std::cout << fmt::format("attest judge {}\n", report::printable(outputs))
              << report::judgement_text(call, contract, judgement, read_look(settings))
              << (explanation ? report::saved_explanation_text(*explanation) : std::string())
              << stored_line(reproducer);
  if (json) {
    auto object = report::judgement_json(call, contract, judgement);
    if (explanation) object["explanation"] = engine::to_json(*explanation);
    if (!reproducer.empty()) object["reproducer"] = reproducer;
    object["inputs"] = inputs;
    object["outputs"] = outputs;
    object["exit"] = static_cast<int>(exit);
    write_json(*json, object);
  }
  if (exit == Exit::incomplete)
    throw Error(exit, "nothing judged: under this policy the bound permits anything for these inputs");
  return static_cast<int>(exit);
}

}  // namespace

void add_judge(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("judge", "saved tensors of a run made elsewhere: could they be right?");
  auto settings = std::make_shared<Settings>();
  settings->declare(*verb, judge_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("judge");
      return judge_files(*settings);
    };
  });
}

}  // namespace attest::cli
