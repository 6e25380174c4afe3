#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/contract_option.hpp"
#include "cli/outputs.hpp"
#include "cli/saved_call_option.hpp"
#include "cli/settings.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/saved_tensors.hpp"
#include "report/bound.hpp"

namespace attest::cli {
namespace {

std::optional<double> read_rtol(const Settings& settings) {
  const auto text = settings.text("rtol");
  if (!text) return std::nullopt;
  const auto value = parse_double(*text);
  if (!value || !(*value >= 0 && *value < 1))
    throw usage_error(fmt::format("{} {}: it must be a number from 0 to less than 1", settings.origin("rtol"), *text));
  return value;
}

// The options of a call that was made elsewhere.
std::vector<Option> saved_options() {
  std::vector<Option> options{
      {"inputs", "FILE",
       "in place of PROBLEM, q, k, v (or x, w_q, ...) and what else went in: .npz, or Polygraphy's --save-inputs JSON"},
      {"op", "OP", "what was called with them: attention, layer_norm or mha (attention)"},
      {"iteration", "N", "of Polygraphy's files (0)"}};
  for (const Option& option : saved_call_options()) options.push_back(option);
  return options;
}

std::unique_ptr<OutputFile> json_file(const Settings& settings) {
  const auto path = settings.text("json");
  return path ? std::make_unique<OutputFile>(*path, "--json") : nullptr;
}

template <class Of>  // a problem, or a call that was saved
int tell(const report::BoundReport& bound, const Of& of, const ops::Contract& contract, OutputFile* json) {
  const Exit exit = bound.spread.ranges.empty() ? Exit::incomplete : Exit::held;
  if (json == nullptr || !json->is_stdout()) std::cout << "attest bound\n" << report::bound_text(bound, of, contract);
  if (json != nullptr) {
    auto object = report::bound_json(bound, of, contract);
    object["exit"] = static_cast<int>(exit);
    write_json(*json, object);
  }
  if (exit == Exit::incomplete)
    throw Error(exit, "nothing judged: no element of out is bounded under this policy: there is no tolerance");
  return static_cast<int>(exit);
}

int bound_problem(const Settings& settings, const std::string& text) {
  const ops::Problem problem = ops::problem_from_text(text);
  for (const Option& option : saved_options())
    if (settings.origin(option.name).starts_with("--") && settings.text(option.name))
      throw usage_error(fmt::format(
          "--{} is of saved inputs, and the problem says all of its call: leave one of them out", option.name));
  const ops::Contract contract = read_contract(settings, problem.op());
  const std::optional<double> rtol = read_rtol(settings);
  const auto json = json_file(settings);
  if (storage_of(problem) != storage_of(policy_of(contract)))
    throw usage_error(fmt::format("the problem says dtype={} and the policy storage={}: they must be the same",
                                  name(storage_of(problem)), name(storage_of(policy_of(contract)))));
  if (const auto why = problem.op().without_elements(problem))
    throw usage_error(fmt::format("out has no elements: {}", *why));
  return tell(
      report::bound_report(engine::spread_of(problem, contract), rtol, engine::stage_spreads_of(problem, contract)),
      problem, contract, json.get());
}

// Prints the bound for the saved inputs of a call made elsewhere; outputs in the file are not read.
int bound_saved(const Settings& settings, const std::string& path) {
  const ops::Op& op = saved_op(settings);
  const ops::Contract contract = read_contract(settings, op);
  const std::optional<double> rtol = read_rtol(settings);
  const auto json = json_file(settings);
  engine::SavedRun run;
  run.iteration = static_cast<std::size_t>(count_of(settings, "iteration", 0).value_or(0));
  const auto in = engine::read_saved_tensors(path, run);
  ops::SavedWords words = saved_words(settings);
  const std::string out = settings.text("out").value_or("out");
  words.answered = std::ranges::find(in, out, &NamedArray::name) != in.end();
  const ops::SavedCall call =
      op.saved_call(in, words.answered ? in : std::vector<NamedArray>(), policy_of(contract), words);
  if (const auto why = op.without_elements(call.exchange->problem()))
    throw usage_error(fmt::format("{}: out has no elements: {}", path, *why));
  return tell(report::bound_report(engine::spread_of(*call.exchange, contract), rtol,
                                   engine::stage_spreads_of(*call.exchange, contract)),
              call, contract, json.get());
}

}  // namespace

void add_bound(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand(
      "bound", "what a correct kernel may deviate on a problem, or on saved inputs, as tolerances for other tools");
  auto problem = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("PROBLEM", *problem, "text of a problem, as failures print it; not with --inputs")->type_name("");
  std::vector<Option> options = contract_options();
  options.push_back({"rtol", "R", "relative tolerance to go with atol (the median of what two kernels may differ by)"});
  options.push_back({"json", "FILE", "one JSON object; - is stdout"});
  for (const Option& option : saved_options()) options.push_back(option);
  settings->declare(*verb, options);
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("bound");
      const auto inputs = settings->text("inputs");
      if (!problem->empty()) return bound_problem(*settings, *problem);
      if (!inputs)
        throw usage_error(
            "bound needs PROBLEM, the text of a problem, or --inputs FILE, what went into a call elsewhere");
      return bound_saved(*settings, *inputs);
    };
  });
}

}  // namespace attest::cli
