// fuzz and check: one campaign, two sets of defaults.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>
#include <limits>
#include <memory>
#include <random>

#include <nlohmann/json.hpp>

#include "cli/calibration_option.hpp"
#include "cli/interrupt.hpp"
#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/bucket.hpp"
#include "engine/campaign.hpp"
#include "engine/cluster.hpp"
#include "engine/corpus.hpp"
#include "engine/failure.hpp"
#include "engine/file.hpp"
#include "engine/instance.hpp"
#include "engine/stream.hpp"
#include "report/observers.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

const std::vector<Option>& shared_options() {
  static const std::vector<Option> options{
      {"policy", "NAME|STAGE=FORMAT,...", "precision policy; fixes the dtype to its storage format"},
      {"op", "OP", "attention (the only one in this version)"},
      {"property", "GLOB", "exactly the laws that match, all of them on every problem"},
      {"laws", "K|all", "further laws per problem besides the policy bound (2)"},
      {"seed", "N", "0..2^64-1"},
      {"cases", "N", "problems to draw"},
      {"time", "DURATION", "30s, 5m, 2h"},
      {"jobs", "N", "threads, each with its own instance of the subject (all cores)"},
      {"shard", "I/N", "every N-th problem, starting with the I-th"},
      {"assume", "PREDICATE", "narrows the domain: 'scale>0 && lq<=lk'"},
      {"known", "PATH", "buckets of that corpus are counted and do not fail the run"},
      {"no-avoid", "", "go on drawing what is understood to fail"},
      {"corpus", "DIR", "where reproducers go"},
      {"output", "DIR", "campaign folder; goes on where it stopped if it holds this campaign", "o"},
      {"shrink-budget", "CALLS|DURATION", "how much to spend on shrinking a failure (1000)"},
      {"continue-after-failure", "", "go on after the first failing case; fuzz does so anyway"},
      {"bisect", "", "125 where nothing could be tested, as `git bisect run` needs"},
      {"json", "FILE", "one JSON object at the end; - is stdout"},
      {"events", "FILE", "JSON lines while it happens; - is stdout"},
      calibration_option(),
  };
  return options;
}

std::vector<Option> fuzz_options() {
  std::vector<Option> options = shared_options();
  options.push_back({"forever", "", "until interrupted"});
  for (const Option& option : subject_options()) options.push_back(option);
  return options;
}

std::vector<Option> check_options() {
  std::vector<Option> options = shared_options();
  options.push_back({"problem", "TEXT", "this one problem instead of random ones"});
  for (const Option& option : subject_options()) options.push_back(option);
  return options;
}

engine::LawChoice read_laws(const Settings& settings) {
  engine::LawChoice choice;
  if (settings.text("laws") == "all")
    choice.further = std::nullopt;
  else if (const auto laws = settings.integer("laws", 0, 1000))
    choice.further = *laws;
  if (const auto glob = settings.text("property")) {
    if (glob->empty())
      throw usage_error(settings.origin("property") + " is empty: it must name a property, or several as in scale-*");
    choice.property_glob = *glob;
  }
  engine::validate(choice);
  return choice;
}

engine::Shard read_shard(const Settings& settings) {
  const auto text = settings.text("shard");
  if (!text) return {};
  const auto slash = text->find('/');
  const auto whole = [](const std::string& digits) -> std::uint64_t {
    if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) return 0;
    return std::stoull(digits);
  };
  if (slash != std::string::npos) {
    const engine::Shard shard{whole(text->substr(0, slash)), whole(text->substr(slash + 1))};
    if (shard.index >= 1 && shard.index <= shard.count) return shard;
  }
  throw usage_error(fmt::format("{} {}: it must be I/N with I in 1..N", settings.origin("shard"), *text));
}

engine::ShrinkBudget read_budget(const Settings& settings, bool seconds_allowed) {
  engine::ShrinkBudget budget;
  const auto text = settings.text("shrink-budget");
  if (!text) return budget;
  if (const auto seconds = parse_duration(*text)) {
    if (!seconds_allowed)
      throw usage_error(settings.origin("shrink-budget") +
                        ": check counts subject calls only, so that it is deterministic");
    budget.seconds = seconds;
    return budget;
  }
  budget.calls = static_cast<std::int64_t>(*settings.integer("shrink-budget", 1, 1'000'000'000));
  return budget;
}

void read_domain(const Settings& settings, engine::CampaignOptions& options) {
  if (const auto op = settings.text("op"); op && *op != "attention")
    throw usage_error(fmt::format("{} {}: this version tests attention only", settings.origin("op"), *op));
  if (const auto policy = settings.text("policy")) {
    options.policy = policy_from_text(*policy);
    options.policy_text = *policy;
  }
  options.calibration = read_calibration(settings);
  if (const auto predicate = settings.text("assume")) options.assume.emplace(*predicate);
  if (const auto known = settings.text("known")) {
    options.known = engine::known_buckets(*known);
    options.known_defects = engine::known_defects(*known);
  }
}

std::uint64_t random_seed() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

std::string utc_stamp() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

// A folder name from a subject: "fault:scale-twice" gives "fault-scale-twice".
std::string folder_name(std::string_view subject) {
  std::string name = engine::portable_subject(subject);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '/'; }, '-');
  return name;
}

engine::CampaignOptions read_campaign(const Settings& settings, const std::string& verb, const std::string& subject) {
  const bool fuzz = verb == "fuzz";
  engine::CampaignOptions options;
  options.verb = verb;
  options.subject = subject;
  read_domain(settings, options);
  options.laws = read_laws(settings);
  options.seed = settings.integer("seed", 0, most).value_or(fuzz ? random_seed() : 1);
  options.cases = settings.integer("cases", 1, most);
  options.seconds = settings.seconds("time");
  const bool forever = fuzz && settings.flag("forever");
  if (forever && (options.cases || options.seconds))
    throw usage_error("--forever goes with neither --cases nor --time: give one of them");
  if (!options.cases && !options.seconds && !forever) {
    if (fuzz)
      options.seconds = 30;
    else
      options.cases = 1000;
  }
  options.avoid = !settings.flag("no-avoid");
  options.jobs = read_jobs(settings);
  options.shard = read_shard(settings);
  options.shrink = read_budget(settings, fuzz);
  options.continue_after_failure = fuzz || settings.flag("continue-after-failure");
  if (const auto folder = settings.text("output"))
    options.folder = *folder;
  else if (fuzz)
    options.folder = fmt::format("attest-out/{}/{}-{}", folder_name(subject), utc_stamp(), options.seed);
  if (const auto corpus = settings.text("corpus"))
    options.corpus = *corpus;
  else if (!options.folder.empty())
    options.corpus = options.folder / "corpus";
  return options;
}

// What --json and --events ask for, opened before the work starts.
struct Outputs {
  std::unique_ptr<OutputFile> json, events;

  explicit Outputs(const Settings& settings) {
    if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
    if (const auto path = settings.text("events")) events = std::make_unique<OutputFile>(*path, "--events");
    if (json && events && json->is_stdout() && events->is_stdout())
      throw usage_error("--json - and --events - cannot share stdout: give one of them a file");
  }
  [[nodiscard]] bool stdout_taken() const noexcept {
    return (json && json->is_stdout()) || (events && events->is_stdout());
  }
  [[nodiscard]] std::unique_ptr<engine::Observer> observer() const {
    std::vector<std::unique_ptr<engine::Observer>> observers;
    observers.push_back(report::terminal_observer({std::cout, std::cerr, progress_is_live(), stdout_taken()}));
    if (events) observers.push_back(report::events_observer(events->stream()));
    return report::tee(std::move(observers));
  }
};

int finish(const engine::Summary& summary, const Outputs& outputs) {
  if (outputs.json) write_json(*outputs.json, report::summary_json(summary));
  if (outputs.events && !outputs.events->holds_all())
    throw usage_error("--events: the file could not be written whole; check the space on its disk");
  if (summary.exit() == Exit::internal) throw internal_error(summary.emptiness());
  return static_cast<int>(summary.exit());
}

// check --problem: one problem, as given, with every law that was asked for; shrunk and stored only under --corpus.
int run_problem(const Settings& settings, const std::string& subject_text, const std::string& text) {
  for (const char* key : {"assume", "seed", "cases", "time", "shard", "output", "events"})
    if (settings.text(key) && settings.origin(key).starts_with("--"))
      throw usage_error(fmt::format(
          "{} is for random problems, and --problem is one as it stands: leave one of them out", settings.origin(key)));
  const Outputs outputs(settings);
  if (const auto corpus = settings.text("corpus")) engine::require_writable(*corpus);
  engine::CampaignOptions options;
  options.verb = "check";
  options.subject = subject_text;
  read_domain(settings, options);
  options.laws = read_laws(settings);
  const auto factory = open_subject(settings, subject_text), peer_factory = open_peer();
  const Problem problem = problem_from_text(text);
  const SubjectInfo& info = factory->info();
  const Contract contract = engine::contract_for_problem(info, options.policy, problem);
  const auto laws = engine::choose_laws(options.laws, problem, contract, info, problem.seed, 0);
  engine::Station station(*factory, peer_factory.get(), options.calibration.get());
  const engine::Bench bench = station.bench();
  const engine::CaseOutcome outcome = engine::check_confirmed(problem, contract, bench, laws);

  engine::Summary summary;
  summary.verb = options.verb;
  summary.subject = subject_text;
  summary.subject_version = info.version;
  summary.policy = options.policy_text;
  summary.policy_declared = options.policy || info.policy_declared;
  summary.seed = problem.seed;
  summary.add(problem, outcome);
  if (const engine::LawVerdict* law = outcome.finding()) {
    engine::Finding finding;
    finding.cases_to_first = 1;
    finding.entry.subject = engine::portable_subject(subject_text);
    finding.entry.problem = problem;
    finding.entry.contract = contract;
    finding.entry.property = outcome.key().property;
    finding.entry.bucket = engine::bucket_of(outcome.key(), finding.entry.subject, contract.policy, problem);
    finding.entry.seen = law->verdict.kind;
    finding.entry.reason = law->verdict.reason;
    finding.entry.evidence = law->verdict.evidence;
    if (const auto corpus = settings.text("corpus")) {
      finding.entry = engine::reproduce({problem, outcome, problem.seed, {}}, bench, subject_text, options.policy,
                                        {info.supports, info.dtypes, {}}, read_budget(settings, false), {});
      const Origin origin = origin_of(*factory);
      finding.entry.subject_file = origin.file;
      finding.entry.subject_name = origin.function;
      finding.reproducer = engine::write_entry(finding.entry, *corpus).string();
    }
    finding.known = options.known.contains(finding.entry.bucket);
    summary.findings.push_back(std::move(finding));
    summary.defects = engine::cluster(summary.findings, {engine::CaseTable(info.supports), {}, {}});
  }
  if (!outputs.stdout_taken())
    std::cout << (summary.policy_declared ? "" : report::undeclared_policy) << report::summary_text(summary);
  return finish(summary, outputs);
}

int run_campaign_verb(const Settings& settings, const std::string& verb, const std::string& subject_text) {
  const Outputs outputs(settings);
  engine::CampaignOptions options = read_campaign(settings, verb, subject_text);
  const auto subject =
      open_subject(settings, subject_text, options.folder.empty() ? options.folder : options.folder / "logs");
  const auto peer = open_peer();
  const Origin origin = origin_of(*subject);
  options.subject_file = origin.file;
  options.subject_name = origin.function;
  options.interrupt = end_on_interrupt();
  const auto observer = outputs.observer();
  return finish(engine::run_campaign(*subject, peer.get(), options, *observer), outputs);
}

}  // namespace

void add_fuzz(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("fuzz", "draw random problems until the time is over, shrink and store what fails");
  auto settings = std::make_shared<Settings>();
  auto subject = std::make_shared<std::string>("builtin:fused");
  verb->add_option("SUBJECT", *subject, subject_help())->type_name("");
  settings->declare(*verb, fuzz_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("fuzz");
      return run_campaign_verb(*settings, "fuzz", *subject);
    };
  });
}

void add_check(CLI::App& app, Run& run) {
  auto* verb =
      app.add_subcommand("check", "the same, bounded and deterministic, for CTest and CI (--seed 1 --cases 1000)");
  auto settings = std::make_shared<Settings>();
  auto subject = std::make_shared<std::string>();
  verb->add_option("SUBJECT", *subject, subject_help())->type_name("")->required();
  settings->declare(*verb, check_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("check");
      if (const auto problem = settings->text("problem")) return run_problem(*settings, *subject, *problem);
      return run_campaign_verb(*settings, "check", *subject);
    };
  });
}

}  // namespace attest::cli
