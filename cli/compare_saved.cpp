// compare, where one side is what was saved of a run made elsewhere.
#include "cli/compare_saved.hpp"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/contract_option.hpp"
#include "cli/interrupt.hpp"
#include "cli/outputs.hpp"
#include "cli/saved_call_option.hpp"
#include "cli/subject_option.hpp"
#include "core/error.hpp"
#include "engine/compare_saved.hpp"
#include "engine/saved_tensors.hpp"
#include "engine/stream.hpp"
#include "report/compare_saved.hpp"

namespace attest::cli {
namespace {

// The options of random problems, and of no other.
constexpr const char* stream_options[] = {"seed",    "cases",         "time",     "forever", "jobs",   "shard",
                                          "assume",  "known",         "no-avoid", "corpus",  "output", "events",
                                          "problem", "shrink-budget", "repeat",   "sizes"};

void refuse_stream_options(const Settings& settings, const std::string& folder) {
  for (const char* key : stream_options)
    if (settings.text(key) && settings.origin(key).starts_with("--"))
      throw usage_error(fmt::format("{} is of problems that are drawn, and {} holds calls as they stand: leave it out",
                                    settings.origin(key), folder));
}

struct Tally {
  std::map<VerdictKind, std::uint64_t> verdicts;
  std::uint64_t damaged = 0;
  bool interrupted = false;
  [[nodiscard]] std::uint64_t of(VerdictKind kind) const {
    const auto found = verdicts.find(kind);
    return found == verdicts.end() ? 0 : found->second;
  }
  [[nodiscard]] std::uint64_t findings() const {
    std::uint64_t sum = 0;
    for (const auto& [kind, count] : verdicts)
      if (is_finding(kind)) sum += count;
    return sum;
  }
  [[nodiscard]] Exit exit() const {
    if (findings() > 0) return Exit::found;
    if (damaged > 0) return Exit::usage;
    return of(VerdictKind::pass) + of(VerdictKind::warn) > 0 ? Exit::held : Exit::incomplete;
  }
};

}  // namespace

std::vector<Option> saved_side_options() {
  std::vector<Option> options = saved_call_options();
  for (const Option& option : contract_options())
    if (option.name != "policy") options.push_back(option);
  return options;
}

void refuse_saved_options(const Settings& settings) {
  for (const Option& option : saved_side_options())
    if (settings.text(option.name) && settings.origin(option.name).starts_with("--"))
      throw usage_error(fmt::format("{} is of saved calls, and neither A nor B is a folder: leave it out",
                                    settings.origin(option.name)));
}

int compare_with_saved(const Settings& settings, const std::string& folder, const std::string& subject,
                       bool saved_first) {
  refuse_stream_options(settings, folder);
  std::unique_ptr<OutputFile> json;
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  const bool quiet = json && json->is_stdout(), bits = settings.flag("bits");
  const ops::Op& op = saved_op(settings);
  const ops::Contract saved = read_contract(settings, op);
  const std::vector<engine::SavedFiles> files = engine::saved_calls_in(folder);
  const auto factory = saved_first ? open_second(settings, subject, {}) : open_subject(settings, subject);
  const auto instance = factory->open();
  const std::atomic<bool>* interrupt = end_on_interrupt();

  Tally tally;
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const engine::SavedFiles& one : files) {
    if (interrupt->load()) {
      tally.interrupted = true;
      break;
    }
    try {
      const auto in = engine::read_saved_tensors(one.inputs, {});
      const ops::SavedCall call =
          op.saved_call(in, one.outputs == one.inputs ? in : engine::read_saved_tensors(one.outputs, {}),
                        policy_of(saved), saved_words(settings));
      const ops::Contract its =
          engine::contract_for_problem(factory->info(), policy_of(saved), call.exchange->problem());
      const Verdict verdict = engine::compare_saved(*call.exchange, saved, *instance, its, saved_first, bits);
      ++tally.verdicts[verdict.kind];
      if (!quiet) std::cout << report::saved_comparison_text(one.inputs.string(), verdict) << std::flush;
      calls.push_back(report::saved_comparison_json(one.inputs.string(), verdict));
    } catch (const Error& error) {
      if (error.exit() != Exit::usage) throw;
      ++tally.damaged;
      const std::string text = error.what();
      std::cerr << "attest: " << (text.find(one.inputs.string()) == text.npos ? one.inputs.string() + ": " : "") << text
                << "\n";
    }
  }
  const Exit exit = tally.exit();
  if (!quiet)
    std::cout << fmt::format("{} saved calls{}: {} held, {} differ, {} open, {} vacuous, {} skipped, {} damaged\n",
                             files.size(), tally.interrupted ? ", interrupted" : "", tally.of(VerdictKind::pass),
                             tally.findings(), tally.of(VerdictKind::warn), tally.of(VerdictKind::vacuous),
                             tally.of(VerdictKind::skip), tally.damaged);
  if (json)
    write_json(*json, {{"format", 1},
                       {"verb", "compare"},
                       {"subject", saved_first ? folder : subject},
                       {"subject_b", saved_first ? subject : folder},
                       {"saved", saved_first ? "A" : "B"},
                       {"policy", to_text(policy_of(saved))},
                       {"interrupted", tally.interrupted},
                       {"calls", calls},
                       {"damaged", tally.damaged},
                       {"exit", static_cast<int>(exit)}});
  if (exit == Exit::incomplete) throw Error(exit, "nothing judged: no saved call was one that could be judged");
  return static_cast<int>(exit);
}

}  // namespace attest::cli
