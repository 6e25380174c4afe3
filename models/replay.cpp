#include "models/replay.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "models/judged.hpp"

namespace attest::models {
namespace {

LawResult result_of(const Entry& entry, const Part& model, Runtime& runtime) {
  const graph::Family family(*model.program, constraints_of(entry, *model.program));
  const graph::Precision precision = graph::precision_from_text(entry.policy);
  const auto& builds = runtime.info().builds;
  if (std::ranges::find(builds, entry.build.level) == builds.end())
    throw Error(Exit::no_subject, fmt::format("{} has no build '{}' here", runtime.info().name, entry.build.level));
  Freshness on = Freshness::new_process;
  const auto asked = [&](const std::string& text, const Law& law) {
    const graph::Problem problem = graph::problem_from_text(text);
    Case one(model, family.feeds(problem), precision, problem.seed);
    LawResult result = ask(law, {one, runtime, entry.build, on});
    on = Freshness::kept;
    return result;
  };
  const Law& law = law_named(entry.law);
  for (const std::string& before : entry.after) asked(before, law);
  return asked(entry.problem, law);
}

void judge(const Entry& entry, bool expect_pass, Replayed& replayed) {
  const LawResult& result = replayed.result;
  const bool failed = is_finding(result.kind);
  const std::string seen = failed ? failure_key(entry.law, result) : std::string(name(result.kind));
  const std::string why = result.reason.empty() ? std::string() : ": " + result.reason;
  if (expect_pass || entry.expect == "pass") {
    const bool passed = result.kind == VerdictKind::pass;
    replayed.outcome = passed ? Outcome::as_expected : Outcome::unexpected;
    replayed.sentence = passed ? "passes as expected" : fmt::format("expected to pass, and is {}{}", seen, why);
  } else if (failed) {
    replayed.outcome = seen == entry.key ? Outcome::as_expected : Outcome::unexpected;
    replayed.sentence =
        seen == entry.key ? "fails as expected" : fmt::format("fails otherwise than expected, as {}{}", seen, why);
  } else if (result.kind == VerdictKind::pass) {
    replayed.outcome = Outcome::mended;
    replayed.sentence = "expected to fail and now passes: mended; make it an entry that expects `pass`";
  } else {
    replayed.outcome = Outcome::unexpected;
    replayed.sentence = fmt::format("expected to fail, and is {}{}", seen, why);
  }
}

}  // namespace

Part model_of(const Entry& entry, const Resolvers& resolvers) {
  std::string bytes = resolvers.model_bytes(entry);
  if (hex64(digest_of(bytes)) != entry.model_digest)
    throw Error(Exit::no_subject, entry.model.filename().string() +
                                      " is not the file that the entry was made with: its contents have changed");
  Part model = part_of_file(std::move(bytes), entry.model.filename().string());
  if (is_saved(entry)) return with_saved_outputs(std::move(model), entry);
  return model;
}

namespace {

// A campaign of the one problem of an entry.
struct AskedAgain {
  Part model;
  CampaignOptions options;
  std::vector<Subject> subjects;
  Summary summary;
};
AskedAgain asked_again(const Entry& entry, const std::filesystem::path& file, const Resolvers& resolvers,
                       std::int64_t calls) {
  if (is_saved(entry))
    throw usage_error(
        fmt::format("{} is of saved results, and no runtime is there to be asked: `attest check MODEL --on RUNTIME "
                    "--inputs {}` asks one of these inputs",
                    file.string(), entry.inputs.string()));
  if (entry.build.fixed)
    throw usage_error(fmt::format("{} is of a build for one problem's lengths: nothing is shrunk or looked for there",
                                  file.string()));
  AskedAgain asked{model_of(entry, resolvers), {}, std::vector<Subject>(1), {}};
  CampaignOptions& options = asked.options;
  options.model = entry.model;
  options.precision = graph::precision_from_text(entry.policy);
  options.law_glob = entry.law;
  options.constraints = constraints_of(entry, *asked.model.program);
  options.given = {entry.inputs, entry.inputs_digest, options.constraints.given};
  options.shrink_calls = calls;
  asked.subjects[0] = {resolvers.runtime(entry), entry.runtime, entry.runtime_file, {entry.build.level}};
  std::vector<graph::Problem> before;
  for (const std::string& text : entry.after) before.push_back(graph::problem_from_text(text));
  asked.summary =
      run_problem(asked.model, asked.subjects, graph::problem_from_text(entry.problem), options, {}, before);
  return asked;
}

}  // namespace

Summary explain_entry(const std::filesystem::path& file, const Resolvers& resolvers) {
  Summary summary = asked_again(read_entry(file), file, resolvers, 0).summary;
  for (Finding& finding : summary.findings) finding.reproducer = file;
  return summary;
}

ShrunkEntry shrink_entry(const std::filesystem::path& file, const Resolvers& resolvers, std::int64_t calls,
                         const std::filesystem::path& corpus) {
  const Entry old = read_entry(file);
  const auto [model, options, subjects, summary] = asked_again(old, file, resolvers, calls);
  ShrunkEntry shrunk{false, "", old, std::nullopt, {}};
  const auto same = std::ranges::find(summary.findings, old.key, &Finding::key);
  if (same == summary.findings.end()) {
    shrunk.sentence = summary.findings.empty()
                          ? fmt::format("{} holds on this problem now: nothing to shrink", old.law)
                          : fmt::format("it fails otherwise than expected, as {}", summary.findings.front().key);
    return shrunk;
  }
  shrunk.fails = true;
  shrunk.entry = entry_of(*same, subjects[0], model, options);
  shrunk.entry.original = old.original;
  shrunk.entry.seed = old.seed;
  shrunk.entry.case_number = old.case_number;
  shrunk.entry.shrink_calls = old.shrink_calls + same->smallest.calls;
  shrunk.place = same->place;
  if (shrunk.entry.problem != old.problem || shrunk.entry.after != old.after || (shrunk.entry.minimal && !old.minimal))
    shrunk.written = write_entry(shrunk.entry, shrunk.place, corpus);
  return shrunk;
}

Replayed replay_entry(const std::filesystem::path& file, const Resolvers& resolvers, bool expect_pass) {
  Replayed replayed;
  replayed.file = file;
  Entry entry;
  try {
    entry = read_entry(file);
  } catch (const Error& error) {
    replayed.outcome = Outcome::damaged;
    replayed.sentence = error.what();
    return replayed;
  }
  try {
    const Part model = model_of(entry, resolvers);
    const auto runtime = resolvers.runtime(entry);
    replayed.result = result_of(entry, model, *runtime);
    judge(entry, expect_pass, replayed);
  } catch (const Error& error) {
    if (error.exit() == Exit::internal) throw;
    replayed.outcome = Outcome::not_run;
    replayed.sentence = error.what();
  }
  return replayed;
}

}  // namespace attest::models
