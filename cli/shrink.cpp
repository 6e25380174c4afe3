#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/model.hpp"
#include "cli/settings.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/campaign.hpp"
#include "engine/compare.hpp"
#include "engine/failure.hpp"
#include "engine/instance.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

void print(const engine::Entry& entry, std::int64_t before) {
  std::cout << fmt::format("{} -> {} {} after {} subject calls ({})\n", before, work_of(entry.problem),
                           entry.problem.op().unit_of_work(), entry.shrink_calls,
                           entry.minimal ? "1-minimal" : "the budget ended");
  std::cout << fmt::format("  problem  {}\n", report::printable(to_text(entry.problem)));
  if (entry.evidence)
    std::cout << fmt::format("  witness  {}\n", report::printable(report::evidence_line(*entry.evidence)));
}

int shrink_entry(const Settings& settings, const std::string& path) {
  if (is_model_entry(path)) return shrink_model_entry(settings, path);
  const engine::Entry old = engine::read_entry(path);
  const auto given = settings.text("subject");
  auto factory = open_subject_of_entry(settings, old);
  auto peer_factory = old.subject_b ? open_second_of_entry(settings, old) : open_peer();
  const Origin origin = origin_of(*factory), origin_b = origin_of(*peer_factory);
  const auto policy = old.policy_given ? std::optional(policy_of(old.contract)) : std::nullopt;
  if (old.subject_b) {
    engine::Compared both = engine::compared(old.problem.op(), std::move(factory), std::move(peer_factory), policy);
    factory = std::move(both.a);
    peer_factory = std::move(both.b);
  }
  engine::Station station(*factory, peer_factory.get(), old.subject_b.has_value());
  const engine::Bench bench = station.bench();

  std::vector<std::size_t> laws{engine::law_named(old.property, old.problem.op())};
  for (const std::string& name : old.with) laws.push_back(engine::law_named(name, old.problem.op()));
  std::sort(laws.begin(), laws.end());
  const engine::CaseOutcome outcome = engine::check_confirmed(old.problem, old.contract, bench, laws);
  if (const Verdict& asked = outcome.laws.front().verdict; !outcome.reported && asked.kind == VerdictKind::skip)
    throw usage_error(fmt::format("{} cannot be shrunk on {}: {}", path, given.value_or(old.subject), asked.reason));
  if (!outcome.reported) {
    std::cout << fmt::format("{} holds on this problem now: nothing to shrink\n", old.property);
    return static_cast<int>(Exit::held);
  }
  engine::ShrinkBudget budget;
  budget.calls = static_cast<std::int64_t>(settings.integer("shrink-budget", 1, 1'000'000'000).value_or(10'000));
  engine::Entry entry =
      engine::reproduce({old.problem, outcome, old.seed, old.case_number}, bench, given.value_or(old.subject), policy,
                        {factory->info(), old.problem.op().dtypes(factory->info()), {}}, budget, {});
  entry.original = old.original;
  entry.reference = old.reference;
  engine::CampaignOptions names;
  names.subject_file = origin.file;
  names.subject_name = origin.function;
  if (old.subject_b)
    names.subject_b = {settings.text("subject-b").value_or(old.subject_b->subject), origin_b.file, origin_b.function};
  engine::name_subjects(names, entry);
  print(entry, work_of(old.problem));
  // <corpus>/<subject>/<file>: the corpus is two folders up.
  const std::filesystem::path corpus =
      settings.text("corpus").value_or((std::filesystem::absolute(path).parent_path().parent_path()).string());
  if (engine::simpler(entry, old))
    std::cout << fmt::format("  written  {}\n", report::printable(engine::write_entry(entry, corpus).string()));
  return static_cast<int>(Exit::found);
}

}  // namespace

void add_shrink(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("shrink", "shrink a corpus file again, with another budget");
  auto file = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("FILE", *file, "a corpus file")->type_name("")->required();
  std::vector<Option> options{
      {"shrink-budget", "CALLS", "subject calls to spend (10000)"},
      {"subject", "SUBJECT", "run this subject instead of the one the file names"},
      {"subject-b", "SUBJECT", "of an entry of two subjects, the second one likewise"},
      {"on", "RUNTIME", "of an entry of a model whose runtime is a script that you have not run before: the script"},
      {"corpus", "DIR", "where a simpler reproducer goes (next to the old one)"}};
  for (const Option& option : subject_options()) options.push_back(option);
  options.push_back(second_python());
  settings->declare(*verb, options);
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("shrink");
      return shrink_entry(*settings, *file);
    };
  });
}

}  // namespace attest::cli
