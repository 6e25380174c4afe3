#include "models/campaign.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/glob.hpp"
#include "core/rng.hpp"
#include "models/diagnosis.hpp"
#include "models/folder.hpp"
#include "models/proven.hpp"
#include "models/stream.hpp"

namespace attest::models {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_findings = 16;
// Seconds past the end of time: those that shrinking and localising may take, and those after which the last call or
// evaluation is cut off.
constexpr double grace = 2, last_grace = 4;
constexpr double commit_every = 1;  // seconds

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Among all_laws().
std::size_t position_of(const Law& law) { return static_cast<std::size_t>(&law - all_laws().data()); }

class Campaign {
 public:
  Campaign(const Part& model, std::vector<Subject>& subjects, const CampaignOptions& options, const Observer& observer)
      : model_(model),
        subjects_(subjects),
        options_(options),
        observer_(observer),
        family_(*model.program, options.constraints),
        stream_(family_, options.seed, options.largest),
        diagnosis_(
            model, family_, options, [this] { return past(grace); },
            [this] { return ended_.load() || past(last_grace); }),
        table_(family_) {
    summary_.model = options.model;
    summary_.inputs = options.given.path;
    summary_.policy = options.precision.name;
    summary_.seed = options.seed;
    for (const Subject& subject : subjects)
      summary_.subjects.push_back(
          fmt::format("{} {} ({})", subject.name, subject.runtime->info().version, fmt::join(subject.levels, ", ")));
  }

  Summary run() {
    if (options_.seconds)
      for (Subject& subject : subjects_)
        subject.runtime->answer_by(start_ + std::chrono::duration_cast<Clock::duration>(
                                                std::chrono::duration<double>(*options_.seconds + last_grace)));
    if (!options_.folder.empty()) go_on();
    std::deque<std::future<Drawn>> ahead;  // evaluated while the runtime is asked those before
    std::uint64_t next = summary_.cases;
    for (std::uint64_t number = next; !over(number); ++number) {
      while (ahead.size() < static_cast<std::size_t>(options_.jobs) && (!options_.cases || next < *options_.cases)) {
        const auto policy = options_.jobs > 1 ? std::launch::async : std::launch::deferred;
        ahead.push_back(std::async(policy, [this, next] { return drawn(next); }));
        ++next;
      }
      try {
        const Drawn one = ahead.front().get();
        ahead.pop_front();
        if (!one.refused.empty())
          count_reason(summary_.skipped, one.refused);
        else
          put(*one.made, one.problem, number, false);
        ++summary_.cases;
      } catch (const graph::Stopped&) {
        summary_.cut_short = !interrupted();
        break;
      }
      commit(false);
      if (ends_with_a_finding()) break;
      if (observer_.progress) observer_.progress(summary_, seconds_left());
    }
    ended_ = true;  // problems evaluated ahead are not wanted any more
    return finished();
  }

  Summary run_one(const graph::Problem& problem, const std::vector<graph::Problem>& before) {
    try {
      ask_one(problem, before);
    } catch (const graph::Stopped&) {  // interrupted
    }
    return finished();
  }

 private:
  void ask_one(const graph::Problem& problem, const std::vector<graph::Problem>& before) {
    Case one = diagnosis_.case_of(problem);
    ++summary_.cases;
    one.room();
    for (const graph::Problem& earlier : before)
      for (Subject& subject : subjects_)
        for (const std::string& level : subject.levels) {
          Case asked = diagnosis_.case_of(earlier);
          diagnosis_.runtime(subject).at(earlier);
          ask(laws_for(0, true), {asked, diagnosis_.runtime(subject), {level}, Freshness::kept});
        }
    put(one, problem, 0, true);
  }

  [[nodiscard]] std::optional<double> seconds_left() const {
    if (!options_.seconds) return std::nullopt;
    return std::max(0.0, *options_.seconds - seconds_since(start_));
  }
  // Earlier runs of this campaign included.
  [[nodiscard]] double seconds_in_all() const { return before_ + seconds_since(start_); }
  [[nodiscard]] bool interrupted() const { return options_.interrupt != nullptr && options_.interrupt->load(); }
  [[nodiscard]] bool over(std::uint64_t number) const {
    return interrupted() || (options_.cases && number >= *options_.cases) ||
           (options_.seconds && seconds_since(start_) >= *options_.seconds);
  }
  // Tells whether the first new finding, which is there, was all that was asked for.
  [[nodiscard]] bool ends_with_a_finding() const {
    return !options_.continue_after_failure &&
           std::ranges::any_of(summary_.findings, [](const Finding& finding) { return finding.known_as.empty(); });
  }
  // True if time ended so many seconds ago, or nothing is wanted any more.
  [[nodiscard]] bool past(double more) const {
    return interrupted() || (options_.seconds && seconds_since(start_) >= *options_.seconds + more);
  }

  Summary finished() {
    commit(true);
    for (std::size_t i = 0; i < summary_.findings.size(); ++i) {
      Finding& finding = summary_.findings[i];
      finding.failures =
          std::max<std::uint64_t>(finding.failures, 1);  // one that a killed run saw, and this one did not
      if (interrupted() || !past(last_grace)) learn(i);
    }
    summary_.seconds = seconds_in_all();
    summary_.interrupted = interrupted();
    if (!options_.folder.empty()) summary_.coverage = coverage_of(stream_, summary_.cases);
    return std::move(summary_);
  }

  // The facts that make two campaigns the same: equal streams of problems, held against equal laws.
  [[nodiscard]] nlohmann::ordered_json identity() const {
    nlohmann::ordered_json object{{"format", 1},
                                  {"kind", "model"},
                                  {"model", hex64(digest_of(*model_.file))},
                                  {"subjects", summary_.subjects},
                                  {"policy", summary_.policy},
                                  {"seed", summary_.seed}};
    object["laws"] = options_.further ? nlohmann::ordered_json(*options_.further) : nlohmann::ordered_json("all");
    object["property"] = options_.law_glob;
    object["constrain"] = to_text(options_.constraints);
    if (options_.given.sets) object["inputs"] = options_.given.digest;
    return object;
  }

  void go_on() {
    folder_.emplace(options_.folder, identity(), summary_);
    summary_.resumed = summary_.cases;
    before_ = summary_.seconds;
    for (Finding& finding : summary_.findings)
      for (const Subject& subject : subjects_)
        if (subject.name == finding.runtime && !finding.flaky)
          look_up(finding, entry_of(finding, subject, model_, options_));
    for (const Folder::CaseLine& line : folder_->cases()) {
      if (line.runs.empty() || table_.full()) continue;
      const std::size_t problem = table_.add(stream_.problem(line.number));
      std::size_t run = 0;
      for (std::size_t subject = 0; subject < subjects_.size(); ++subject)
        for (const std::string& level : subjects_[subject].levels)
          if (run < line.runs.size()) {
            const auto& [held, finding] = line.runs[run++];
            table_.add({problem, subject, level, held, finding});
          }
    }
  }

  void commit(bool at_once) {
    if (!folder_ || (!at_once && seconds_since(committed_) < commit_every)) return;
    summary_.seconds = seconds_in_all();
    folder_->commit(summary_);
    committed_ = Clock::now();
  }

  // Learns the condition under which a finding shows. A failure that shows now and then, or after others alone, is of
  // no single problem.
  void learn(std::size_t at) {
    Finding& finding = summary_.findings[at];
    if (finding.flaky || !finding.smallest.after.empty()) return;
    const auto subject = std::ranges::find(subjects_, finding.runtime, &Subject::name);
    if (subject == subjects_.end()) return;
    const std::vector<std::string> levels(finding.levels.begin(), finding.levels.end());
    std::vector<graph::Problem> neighbours;  // those that hold
    if (finding.smallest.minimal) neighbours = family_.simpler(finding.smallest.problem);
    std::erase_if(neighbours, [this](const graph::Problem& one) { return !family_.takes(one); });
    finding.condition =
        table_.learn({static_cast<int>(at), static_cast<std::size_t>(subject - subjects_.begin()),
                      position_of(law_named(finding.law)), levels, finding.smallest.problem, neighbours});
    if (finding.condition->counts.failing == 0) finding.condition.reset();
  }

  // `spread`, and further ones in turn.
  [[nodiscard]] std::vector<const Law*> laws_for(std::uint64_t bits, bool all) const {
    std::vector<const Law*> chosen, rest;
    for (const Law& law : all_laws()) {
      if (!options_.law_glob.empty()) {
        if (glob_matches(options_.law_glob, law.name)) chosen.push_back(&law);
      } else {
        // A law `beside` comes in addition to the drawn ones, which stay the same with a law more.
        const bool beside = law.asked == Law::Asked::beside && options_.further != 0 && mix(~bits) % 4 == 0;
        if (law.asked == Law::Asked::always || beside || all || !options_.further)
          chosen.push_back(&law);
        else if (law.asked == Law::Asked::in_turn)
          rest.push_back(&law);
      }
    }
    if (!options_.law_glob.empty() || all || !options_.further) return chosen;
    for (std::size_t k = 0; k < *options_.further && !rest.empty(); ++k) {
      bits = mix(bits);
      const auto at = rest.begin() + static_cast<std::ptrdiff_t>(below(bits, rest.size()));
      chosen.push_back(*at);
      rest.erase(at);
    }
    return chosen;
  }

  // Problem number `number`, and what correct results of it are.
  struct Drawn {
    graph::Problem problem;
    std::unique_ptr<Case> made;
    std::string refused;
  };
  Drawn drawn(std::uint64_t number) const {
    Drawn one;
    one.problem = stream_.problem(number);
    one.made.reset(new Case(diagnosis_.case_of(one.problem)));
    one.refused = refused(*one.made);
    return one;
  }

  // Why the graph itself cannot be evaluated on a problem: lengths of axes that do not go together, mostly.
  static std::string refused(Case& one) {
    try {
      one.room();
      return {};
    } catch (const Error& error) {
      if (error.exit() != Exit::usage) throw;
      return error.what();
    }
  }

  void put(Case& one, const graph::Problem& problem, std::uint64_t number, bool all_laws_asked) {
    std::uint64_t bits = extend(mix(problem.seed), 0x6c617773);
    const auto in_table = table_.full() ? std::nullopt : std::optional(table_.add(problem));
    Folder::CaseLine line{number, {}};
    for (std::size_t index = 0; index < subjects_.size() && !ends_with_a_finding(); ++index) {
      Subject& subject = subjects_[index];
      for (const std::string& level : subject.levels) {
        bits = mix(bits);
        ++summary_.runs;
        const auto laws = laws_for(bits, all_laws_asked);
        Recorder& runtime = diagnosis_.runtime(subject);
        runtime.at(problem);
        const Asking asking{one, runtime, {level}, Freshness::kept};
        const auto results = ask(laws, asking);
        if (const std::string note = subject.runtime->note(level); !note.empty())
          summary_.notes.emplace(subject.name + " " + level, note);
        std::uint32_t held = 0;
        for (std::size_t i = 0; i < laws.size(); ++i) {
          count(*laws[i], results[i]);
          if (results[i].kind == VerdictKind::pass) held |= std::uint32_t{1} << position_of(*laws[i]);
        }
        const int finding = look_at(subject, asking, problem, number, laws, results);
        if (in_table) table_.add({*in_table, index, level, held, finding});
        line.runs.emplace_back(held, finding);
        if (ends_with_a_finding()) break;
      }
    }
    if (folder_) folder_->add(line);
  }

  void count(const Law& law, const LawResult& result) {
    LawCounts& counts = summary_.laws[std::string(law.name)];
    ++counts.kinds[result.kind];
    if (result.kind == VerdictKind::skip) count_reason(counts.skipped, result.reason);
    if (result.kind == VerdictKind::vacuous) count_reason(counts.vacuous, result.reason);
    if (result.kind == VerdictKind::pass) {
      counts.largest = std::max(counts.largest, result.z);
      counts.largest_t = std::max(counts.largest_t, result.t.value_or(0));
    }
    summary_.judged += result.judged;
    summary_.proven += result.proven;
    summary_.undetermined += result.undetermined;
  }

  // The position of the finding that a failure belongs to and by whose law it was told, or -1.
  int look_at(Subject& subject, const Asking& asking, const graph::Problem& problem, std::uint64_t number,
              const std::vector<const Law*>& laws, const std::vector<LawResult>& results) {
    std::optional<std::vector<std::vector<graph::Problem>>> histories;  // before any of this is looked at
    Finding* first = nullptr;  // the finding of this problem and build: further laws that fail tell the same defect
    bool by_its_law = false;
    for (std::size_t i = 0; i < laws.size(); ++i) {
      if (!is_finding(results[i].kind)) continue;
      if (first != nullptr) {
        by_its_law = by_its_law || first->law == laws[i]->name;
        first->also.insert(std::string(laws[i]->name));
        continue;
      }
      if (!histories) histories = diagnosis_.runtime(subject).histories(asking.build.level);
      first = place_failure(subject, asking, problem, number, *laws[i], results[i], *histories);
      if (first == nullptr) break;
      by_its_law = first->law == laws[i]->name;
    }
    return by_its_law ? static_cast<int>(first - summary_.findings.data()) : -1;
  }

  // The finding that a failure belongs to, which may be a new one. nullptr past the most that are told apart.
  Finding* place_failure(Subject& subject, const Asking& asking, const graph::Problem& problem, std::uint64_t number,
                         const Law& law, const LawResult& result,
                         const std::vector<std::vector<graph::Problem>>& histories) {
    const std::string key = failure_key(law.name, result);
    for (Finding& known : summary_.findings)
      if (known.runtime == subject.name && explains(known, key, law, result, asking, problem)) {
        ++known.failures;
        known.levels.insert(asking.build.level);
        if (known.law != law.name) known.also.insert(std::string(law.name));
        return &known;
      }
    if (summary_.findings.size() == most_findings) {
      ++summary_.untold;
      return nullptr;
    }
    const double seconds = seconds_in_all();
    if (observer_.failure)
      observer_.failure(std::string(law.name), result, subject.name + " " + to_text(asking.build), number, seconds,
                        problem);
    Finding finding;
    finding.law = law.name;
    finding.key = key;
    finding.runtime = subject.name;
    finding.version = subject.runtime->info().version;
    finding.on = subject.file.empty() ? subject.name
                                      : subject.file.lexically_proximate(std::filesystem::current_path()).string();
    finding.levels.insert(asking.build.level);
    finding.failures = 1;
    finding.first_case = number;
    finding.seconds_to_first = seconds;
    finding.original = problem;
    finding.smallest = {problem};
    finding.build = asking.build;
    finding.result = result;
    if (!diagnosis_.understand(subject, law, finding, histories)) {
      ++summary_.slow;
      return nullptr;
    }
    const auto told = std::ranges::find_if(summary_.findings, [&](const Finding& known) {
      // A failure that nothing repeats is told apart by its observation alone.
      const bool flakes_alike = known.flaky && finding.flaky && known.key == finding.key;
      return known.runtime == finding.runtime && (flakes_alike || diagnosis_.are_one(subject, known, finding));
    });
    if (told != summary_.findings.end()) {
      ++told->failures;
      told->levels.insert(finding.levels.begin(), finding.levels.end());
      told->also.insert(finding.law);
      told->others.emplace(key, finding.place ? finding.place->tensor : std::string());
      return &*told;
    }
    store(subject, finding);
    if (folder_) folder_->finding(finding);
    summary_.findings.push_back(std::move(finding));
    if (observer_.finding) observer_.finding(summary_.findings.back());
    return &summary_.findings.back();
  }

  // Tells whether a failure with this key is of a known finding.
  bool explains(const Finding& known, const std::string& key, const Law& law, const LawResult& result,
                const Asking& asking, const graph::Problem& problem) {
    // A failure that shows only after other calls is asked of no tensor by itself: its own report names the part, or
    // nothing does.
    if (known.key == key && !known.smallest.after.empty())
      return !known.place || !result.witness || law.ask != proven_bound ||
             parts_are_alike(model_.program->model(), known.place->tensor, result.witness->output);
    const auto other = known.others.find(key);
    if (known.key != key && other == known.others.end()) return false;
    try {
      return diagnosis_.explains(known.key != key ? other->second
                                 : known.place    ? known.place->tensor
                                                  : std::string(),
                                 law, asking, problem);
    } catch (const graph::Stopped&) {
      return true;  // nothing more is known than its key
    }
  }

  // Looks a finding up among what is known.
  void look_up(Finding& finding, const Entry& entry) const {
    auto [name, waivers] = known_as(options_.known, entry);
    finding.known_as = std::move(name);
    finding.waivers = std::move(waivers);
  }

  // Looks it up, and writes it to the corpus.
  void store(const Subject& subject, Finding& finding) {
    if (finding.flaky) return;
    const Entry entry = entry_of(finding, subject, model_, options_);
    look_up(finding, entry);
    if (!options_.corpus.empty()) finding.reproducer = write_entry(entry, finding.place, options_.corpus);
  }

  const Part& model_;
  std::vector<Subject>& subjects_;
  const CampaignOptions& options_;
  const Observer& observer_;
  graph::Family family_;
  Stream stream_;
  Diagnosis diagnosis_;
  Summary summary_;
  RunTable table_;
  std::optional<Folder> folder_;
  double before_ = 0;  // seconds of earlier runs
  Clock::time_point start_ = Clock::now(), committed_ = start_;
  std::atomic<bool> ended_ = false;
};

}  // namespace

Entry entry_of(const Finding& finding, const Subject& subject, const Part& model, const CampaignOptions& options) {
  Entry entry;
  entry.model = std::filesystem::absolute(options.model);
  entry.model_digest = hex64(digest_of(*model.file));
  if (options.given.sets) {
    entry.inputs = std::filesystem::absolute(options.given.path);
    entry.inputs_digest = options.given.digest;
  }
  for (const auto& [input, use] : options.constraints.roles) entry.roles.emplace(input, to_text(use));
  entry.runtime = subject.name;
  entry.runtime_file = subject.file.empty() ? subject.file : std::filesystem::absolute(subject.file);
  entry.version = finding.version;
  entry.build = finding.build;
  entry.policy = options.precision.name;
  entry.law = finding.law;
  entry.problem = to_text(finding.smallest.problem);
  for (const graph::Problem& problem : finding.smallest.after) entry.after.push_back(to_text(problem));
  entry.key = finding.key;
  entry.reason = finding.result.reason;
  entry.z = finding.result.z;
  if (finding.place) {
    entry.tensor = finding.place->tensor;
    entry.node = finding.place->node;
    entry.op = finding.place->op;
    if (finding.place->segment) entry.segment = finding.place->segment->nodes;
  }
  entry.original = to_text(finding.original);
  entry.seed = options.seed;
  entry.case_number = finding.first_case;
  entry.shrink_calls = finding.smallest.calls;
  entry.minimal = finding.smallest.minimal;
  return entry;
}

Summary run_campaign(const Part& model, std::vector<Subject>& subjects, const CampaignOptions& options,
                     const Observer& observer) {
  return Campaign(model, subjects, options, observer).run();
}

Summary run_problem(const Part& model, std::vector<Subject>& subjects, const graph::Problem& problem,
                    const CampaignOptions& options, const Observer& observer,
                    const std::vector<graph::Problem>& before) {
  return Campaign(model, subjects, options, observer).run_one(problem, before);
}

}  // namespace attest::models
