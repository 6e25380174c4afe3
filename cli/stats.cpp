// stats: counts the draws of a campaign on a subject, and names the regions of the domain it never reaches.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/campaign_option.hpp"
#include "cli/outputs.hpp"
#include "cli/policy_option.hpp"
#include "cli/settings.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "engine/campaign.hpp"
#include "engine/stream.hpp"
#include "generators/coverage.hpp"
#include "report/coverage.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

std::vector<Option> stats_options() {
  std::vector<Option> all{
      policy_option(),
      {"op", "OP", "attention, layer_norm or mha (the first that the subject offers)"},
      {"assume", "PREDICATE", "narrows the domain: 'scale>0 && lq<=lk'; and prints its share of all draws"},
      sizes_option(),
      {"seed", "N", "0..2^64-1 (1)"},
      {"cases", "N", "problems to draw (100000)"},
      {"json", "FILE", "one JSON object; - is stdout"}};
  for (const Option& option : subject_options()) all.push_back(option);
  return all;
}

int run_stats(const Settings& settings, const std::string& subject) {
  std::optional<OutputFile> json;
  if (const auto path = settings.text("json")) json.emplace(*path, "--json");
  const auto factory = open_subject(settings, subject);
  engine::CampaignOptions of_subject;
  of_subject.op = asked_op(settings);
  const ops::Op& op = engine::op_of(of_subject, factory->info());
  const std::optional<engine::Policy> policy = read_policy(settings, op);
  std::optional<engine::Assumption> assume;
  if (const auto text = settings.text("assume")) assume.emplace(*text, op);
  const std::uint64_t seed = settings.integer("seed", 0, std::numeric_limits<std::uint64_t>::max()).value_or(1);
  const std::uint64_t cases = settings.integer("cases", 1, 1'000'000'000).value_or(100'000);

  const SizeRegime sizes = read_sizes(settings);
  const auto domain = engine::domain_for(factory->info(), op, policy, assume, sizes);
  const Coverage coverage = op.coverage(*domain, seed, cases);
  std::optional<std::uint64_t> held;
  if (assume) held = engine::holding(factory->info(), op, policy, *assume, sizes, seed, cases);
  if (json) {
    nlohmann::ordered_json object{
        {"format", 1}, {"verb", "stats"}, {"subject", subject}, {"seed", seed}, {"cases", cases}};
    if (held) object["held"] = *held;
    object.update(report::coverage_json(coverage));
    write_json(*json, object);
    if (json->is_stdout()) return 0;
  }
  std::cout << fmt::format("What is drawn for {}: {}, seed {}", subject, report::counted(cases, "problem"), seed);
  if (const auto text = settings.text("policy")) std::cout << fmt::format(", policy {}", *text);
  if (assume)
    std::cout << fmt::format(", assuming {}\nIt holds of {} of {} drawn without it ({:.2f} %)", assume->text(), *held,
                             report::counted(cases, "problem"),
                             100 * static_cast<double>(*held) / static_cast<double>(cases));
  std::cout << fmt::format("\n{}", report::coverage_text(coverage));
  return 0;
}

}  // namespace

void add_stats(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("stats", "how often each value of each dimension is drawn, and what never meets");
  auto settings = std::make_shared<Settings>();
  auto subject = std::make_shared<std::string>("builtin:fused");
  verb->add_option("SUBJECT", *subject, subject_help())->type_name("");
  settings->declare(*verb, stats_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("stats");
      return run_stats(*settings, *subject);
    };
  });
}

}  // namespace attest::cli
