#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/contract_option.hpp"
#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
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

int bound_problem(const Settings& settings, const std::string& text) {
  const ops::Problem problem = ops::problem_from_text(text);
  const ops::Contract contract = read_contract(settings, problem.op());
  const std::optional<double> rtol = read_rtol(settings);
  std::unique_ptr<OutputFile> json;
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  if (storage_of(problem) != storage_of(policy_of(contract)))
    throw usage_error(fmt::format("the problem says dtype={} and the policy storage={}: they must be the same",
                                  name(storage_of(problem)), name(storage_of(policy_of(contract)))));
  if (const auto why = problem.op().without_elements(problem))
    throw usage_error(fmt::format("out has no elements: {}", *why));
  const report::BoundReport bound =
      report::bound_report(engine::spread_of(problem, contract), rtol, engine::stage_spreads_of(problem, contract));
  const Exit exit = bound.spread.ranges.empty() ? Exit::internal : Exit::held;
  if (!json || !json->is_stdout()) std::cout << "attest bound\n" << report::bound_text(bound, problem, contract);
  if (json) {
    auto object = report::bound_json(bound, problem, contract);
    object["exit"] = static_cast<int>(exit);
    write_json(*json, object);
  }
  if (exit == Exit::internal)
    throw internal_error("no element of out is bounded under this policy: there is no tolerance");
  return static_cast<int>(exit);
}

}  // namespace

void add_bound(CLI::App& app, Run& run) {
  auto* verb =
      app.add_subcommand("bound", "what a correct kernel may deviate on a problem, as tolerances for other tools");
  auto problem = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("PROBLEM", *problem, "text of a problem, as failures print it")->type_name("")->required();
  std::vector<Option> options = contract_options();
  options.push_back({"rtol", "R", "relative tolerance to go with atol (the median of what two kernels may differ by)"});
  options.push_back({"json", "FILE", "one JSON object; - is stdout"});
  settings->declare(*verb, options);
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("bound");
      return bound_problem(*settings, *problem);
    };
  });
}

}  // namespace attest::cli
