// Campaigns and single problems, whatever laws they are held against.
#include "cli/campaign_option.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <iostream>
#include <iterator>
#include <limits>
#include <random>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/model.hpp"
#include "cli/policy_option.hpp"
#include "cli/provenance.hpp"
#include "cli/shard_option.hpp"
#include "core/error.hpp"
#include "engine/bucket.hpp"
#include "engine/campaign_folder.hpp"
#include "engine/corpus.hpp"
#include "engine/known.hpp"
#include "engine/stream.hpp"
#include "generators/coverage.hpp"
#include "report/ci.hpp"
#include "report/coverage.hpp"
#include "report/observers.hpp"
#include "report/record.hpp"
#include "report/text.hpp"
#include "subjects/builtin.hpp"

namespace attest::cli {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

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

// Reads the options whose words are the operation's own: --policy and --assume.
void read_in_words_of(const ops::Op& op, const Settings& settings, engine::CampaignOptions& options) {
  options.op = &op;
  options.policy = read_policy(settings, op);
  options.policy_text = settings.text("policy").value_or("");
  if (const auto predicate = settings.text("assume")) options.assume.emplace(*predicate, op);
}

// Today in UTC, "2026-11-29".
std::string today() { return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))); }

void read_domain(const Settings& settings, engine::CampaignOptions& options) {
  options.sizes = read_sizes(settings);
  if (const ops::Op* op = asked_op(settings)) {
    read_in_words_of(*op, settings, options);
  } else if (const ops::Op* op = ops::find_op(builtin_op(options.subject))) {
    read_in_words_of(*op, settings, options);
  }
  options.known = read_known(settings);
}

// The seed that the rest of an open file says. Closes it, but for stdin, stdout and stderr. Throws Error(usage).
std::uint64_t seed_from(int file, const std::string& origin) {
  constexpr std::size_t longest = 64;
  std::string text;
  char byte = 0;
  ssize_t count = 0;
  while (text.size() < longest && ((count = ::read(file, &byte, 1)) == 1 || (count < 0 && errno == EINTR)))
    if (count == 1) text += byte;
  if (file > STDERR_FILENO) ::close(file);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (count < 0 || text.empty() || error != std::errc() || end != text.data() + text.size())
    throw usage_error(fmt::format(
        "{} {}: there must be a seed in that open file, 0..2^64-1, as in `--seed-fd 3 3< FILE`", origin, file));
  return seed;
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

// Makes PARENT/UTC-SEED, or UTC alone where the seed is kept back; with -2 and so on behind it where one second begins
// several. A folder that cannot be made is told by whoever writes into it.
std::filesystem::path new_folder(const std::filesystem::path& parent, std::optional<std::uint64_t> seed) {
  const std::string name = utc_stamp() + (seed ? fmt::format("-{}", *seed) : "");
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  std::filesystem::path folder = parent / name;
  for (int i = 2; !error && !std::filesystem::create_directory(folder, error); ++i)
    folder = parent / fmt::format("{}-{}", name, i);
  return folder;
}

}  // namespace

const ops::Op* asked_op(const Settings& settings) {
  const auto name = settings.text("op");
  if (!name) return nullptr;
  if (const ops::Op* op = ops::find_op(*name)) return op;
  std::vector<std::string_view> names;
  for (const ops::Op* each : ops::all_ops()) names.push_back(each->name());
  throw usage_error(fmt::format("{} {}: there is no such operation: this version tests {}", settings.origin("op"),
                                *name, fmt::join(names, " and ")));
}

Option sizes_option() {
  return {"sizes", "small|models|both", "shapes of models (docs/sizes.md), others, or both (both)"};
}

SizeRegime read_sizes(const Settings& settings) { return sizes_named(settings.text("sizes").value_or("both")); }

std::vector<Option> campaign_options() {
  std::vector<Option> all =
      under("What is drawn",
            {policy_option(),
             {"op", "OP", "attention, layer_norm or mha (the first that the subject offers)"},
             {"assume", "PREDICATE", "narrows the domain: 'scale>0 && lq<=lk'"},
             sizes_option(),
             {"seed", "N", "0..2^64-1"},
             {"seed-fd", "FD", "reads the seed from this open file, so that the subject cannot see it"},
             {"shard", "I/N|N", "every N-th problem, starting with the I-th; N alone: which one the scheduler says"},
             {"repeat", "R",
              "keep each plan (shape, strides, options, forms) for R problems (what the subject's plan_ms pays for)"},
             {"no-avoid", "", "go on drawing what is understood to fail"}});
  for (const Option& option :
       under("How much", {{"time", "DURATION", "30s, 5m, 2h"},
                          {"cases", "N", "problems to draw"},
                          {"jobs", "N",
                           "threads, each with its own instance of the subject (all cores; on a device "
                           "six)"},
                          {"shrink-budget", "CALLS|DURATION", "how much to spend on shrinking a failure (1000)"}}))
    all.push_back(option);
  std::vector<Option> results{
      {"output", "DIR", "campaign folder; goes on where it stopped if it holds this campaign", "o"},
      {"corpus", "DIR", "where reproducers go"},
      {"known", "PATH", "failures that this corpus has are counted, and fail nothing"},
      {"json", "FILE", "one JSON object at the end; - is stdout"},
      {"events", "FILE", "JSON lines while it happens; - is stdout"},
      {"junit", "FILE", "JUnit's XML at the end: a test case for each law"},
      {"sarif", "FILE", "SARIF 2.1.0 at the end: a result for each finding"},
      {"bisect", "", "125 where nothing could be tested, as `git bisect run` needs"}};
  for (const Option& option : look_options()) results.push_back(option);
  for (const Option& option : under("Results", results)) all.push_back(option);
  return all;
}

std::string folder_name(std::string_view subject) {
  std::string name = engine::portable_subject(subject);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '/'; }, '-');
  return name;
}

CampaignExtent read_extent(const Settings& settings, bool open_ended) {
  CampaignExtent extent;
  const auto folder = open_ended ? settings.text("output") : std::nullopt;
  const auto begun = folder ? engine::seed_in(*folder) : std::nullopt;  // a campaign goes on with its own
  extent.seed = settings.integer("seed", 0, most).value_or(begun ? *begun : open_ended ? random_seed() : 1);
  if (const auto file = settings.integer("seed-fd", 0, std::numeric_limits<int>::max())) {
    if (settings.text("seed")) throw usage_error("--seed and --seed-fd both say the seed: give one of them");
    extent.seed = seed_from(static_cast<int>(*file), settings.origin("seed-fd"));
    extent.seed_kept_back = true;
  }
  extent.cases = settings.integer("cases", 1, most);
  extent.seconds = settings.seconds("time");
  extent.forever = open_ended && settings.flag("forever");
  if (extent.forever && (extent.cases || extent.seconds))
    throw usage_error("--forever goes with neither --cases nor --time: give one of them");
  return extent;
}

std::filesystem::path campaign_folder(const Settings& settings, bool open_ended, const std::string& folder_name,
                                      std::optional<std::uint64_t> seed) {
  if (const auto folder = settings.text("output")) return *folder;
  return open_ended ? new_folder(std::filesystem::path("attest-out") / folder_name, seed) : std::filesystem::path();
}

void read_corpora(const Settings& settings,
                  const std::function<void(const std::string& corpus, const std::optional<engine::Waiver>&)>& read) {
  if (const auto corpus = settings.text("known")) read(*corpus, std::nullopt);
  for (const auto& [entry, reason, until] : settings.waivers())
    read(entry, engine::Waiver{reason, until, today() > until});
}

std::vector<engine::KnownEntry> read_known(const Settings& settings) {
  std::vector<engine::KnownEntry> known;
  read_corpora(settings, [&known](const std::string& corpus, const std::optional<engine::Waiver>& waiver) {
    for (const std::filesystem::path& file : engine::corpus_files({corpus}))
      if (!is_model_entry(file)) std::ranges::move(engine::known_entries(file, waiver), std::back_inserter(known));
  });
  return known;
}

void read_campaign(const Settings& settings, bool open_ended, const std::string& folder_name,
                   engine::CampaignOptions& options) {
  read_domain(settings, options);
  const CampaignExtent extent = read_extent(settings, open_ended);
  options.seed = extent.seed;
  options.seed_kept_back = extent.seed_kept_back;
  options.cases = extent.cases;
  options.seconds = extent.seconds;
  if (!options.cases && !options.seconds && !extent.forever) {
    if (open_ended)
      options.seconds = 30;
    else
      options.cases = 1000;
  }
  options.avoid = !settings.flag("no-avoid");
  options.jobs = read_jobs(settings);
  options.shard = read_shard(settings.text("shard"), settings.origin("shard"));
  if (options.shard.count > 1 && open_ended && !settings.text("seed") && !extent.seed_kept_back)
    throw usage_error("a shard needs --seed: all of them draw parts of one stream");
  options.shrink = read_budget(settings, open_ended);
  options.continue_after_failure = open_ended || settings.flag("continue-after-failure");
  options.folder = campaign_folder(settings, open_ended, folder_name,
                                   options.seed_kept_back ? std::nullopt : std::optional(options.seed));
  if (const auto corpus = settings.text("corpus"))
    options.corpus = *corpus;
  else if (!options.folder.empty())
    options.corpus = options.folder / "corpus";
}

void read_operation(const Settings& settings, const SubjectInfo& info, engine::CampaignOptions& options) {
  if (options.op == nullptr) read_in_words_of(ops::first_op(info), settings, options);
}

void read_pace(const Settings& settings, const SubjectInfo& info, const SubjectInfo* peer,
               engine::CampaignOptions& options) {
  if (!settings.text("jobs")) options.jobs = engine::usual_jobs(info, options.jobs);
  options.repeat = settings.integer("repeat", 1, 1'000'000).value_or(engine::usual_repeat(info, peer));
}

void read_problem(const Settings& settings, engine::CampaignOptions& options) {
  for (const char* key : {"assume", "sizes", "seed", "seed-fd", "cases", "time", "repeat", "shard", "output", "events"})
    if (settings.text(key) && settings.origin(key).starts_with("--"))
      throw usage_error(fmt::format(
          "{} is for random problems, and --problem is one as it stands: leave one of them out", settings.origin(key)));
  read_domain(settings, options);
  options.shrink = read_budget(settings, false);
  if (const auto corpus = settings.text("corpus")) options.corpus = *corpus;
}

Outputs::Outputs(const Settings& settings) : look(read_look(settings)) {
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  if (const auto path = settings.text("events")) events = std::make_unique<OutputFile>(*path, "--events");
  if (const auto path = settings.text("junit")) junit = std::make_unique<OutputFile>(*path, "--junit");
  if (const auto path = settings.text("sarif")) sarif = std::make_unique<OutputFile>(*path, "--sarif");
  std::vector<std::string_view> taken;
  for (const auto& file : {&json, &events, &junit, &sarif})
    if (*file && (*file)->is_stdout()) taken.push_back((*file)->option());
  if (taken.size() > 1)
    throw usage_error(fmt::format("{} - cannot share stdout: give all but one a file", fmt::join(taken, " - and ")));
}

bool Outputs::stdout_taken() const noexcept {
  return std::ranges::any_of(std::array{json.get(), events.get(), junit.get(), sarif.get()},
                             [](const OutputFile* file) { return file != nullptr && file->is_stdout(); });
}

std::unique_ptr<engine::Observer> Outputs::observer() const {
  std::vector<std::unique_ptr<engine::Observer>> observers;
  observers.push_back(report::terminal_observer({std::cout, std::cerr, progress_is_live(), stdout_taken(), look}));
  if (events) observers.push_back(report::events_observer(events->stream()));
  return report::tee(std::move(observers));
}

void keep_record(const engine::Summary& summary, const SubjectInfo& info, const engine::CampaignOptions& options) {
  if (options.folder.empty()) return;
  constexpr std::uint64_t most_looked_at = 100'000;  // a third of a second
  nlohmann::ordered_json record = report::summary_json(summary);
  const ops::Op& op = engine::op_of(options, info);
  const std::uint64_t problems = std::min(summary.next_case, most_looked_at);
  if (problems > 0) {
    const auto domain = engine::domain_for(info, op, options.policy, options.assume, options.sizes);
    record["coverage"] = report::coverage_json(op.coverage(*domain, options.seed, problems));
    record["coverage"]["problems"] = problems;
  }
  record["run"] = provenance(info);
  report::write_record(options.folder, record);
}

int finish(const engine::Summary& summary, const SubjectInfo& info, const Outputs& outputs) {
  if (outputs.json) write_json(*outputs.json, report::summary_json(summary));
  if (outputs.junit || outputs.sarif) {
    nlohmann::json object = report::summary_json(summary);
    object["run"] = provenance(info);
    if (outputs.junit) write_text(*outputs.junit, report::junit_xml(object));
    if (outputs.sarif) write_json(*outputs.sarif, report::sarif_json(object));
  }
  if (outputs.events && !outputs.events->holds_all())
    throw usage_error("--events: the file could not be written whole; check the space on its disk");
  if (outputs.events) outputs.events->require_in_place();
  if (summary.exit() == Exit::incomplete) throw Error(Exit::incomplete, "nothing judged: " + summary.unjudged());
  return static_cast<int>(summary.exit());
}

namespace {

// A line that names no operation is of the one under test.
ops::Problem problem_of(const std::string& text, const ops::Op& op) {
  return text.find("op=") == std::string::npos ? op.problem_from_text(text) : ops::problem_from_text(text);
}

}  // namespace

int run_problem(const std::string& text, const engine::CampaignOptions& options, const SubjectFactory& subject,
                const SubjectFactory& peer, const Outputs& outputs) {
  const ops::Problem problem = problem_of(text, *options.op);
  engine::CampaignOptions its = options;
  its.op = &problem.op();
  const engine::Summary summary = engine::run_problem(problem, subject, peer, its);
  if (!outputs.stdout_taken())
    std::cout << (summary.policy_declared    ? ""
                  : options.subject_b        ? std::string(report::undeclared_policies)
                  : !subject.info().declared ? std::string(report::undeclared_policy)
                                             : report::policy_text(its, subject.info()))
              << report::summary_text(summary, outputs.look);
  return finish(summary, subject.info(), outputs);
}

}  // namespace attest::cli
