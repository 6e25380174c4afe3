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
  const Contract contract = read_contract(settings);
  const std::optional<double> rtol = read_rtol(settings);
  std::unique_ptr<OutputFile> json;
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  const Problem problem = problem_from_text(text);
  if (problem.dtype != contract.policy[Stage::storage])
    throw usage_error(fmt::format("the problem says dtype={} and the policy storage={}: they must be the same",
                                  name(problem.dtype), name(contract.policy[Stage::storage])));
  if (problem.b * problem.hq * problem.lq * problem.dv == 0)
    throw usage_error("out has no elements: give b, hq, lq and dv of the problem a size of 1 or more");
  const report::BoundReport bound = report::bound_report(engine::spread_of(problem, contract), rtol);
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
