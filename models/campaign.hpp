#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "graph/constraints.hpp"
#include "models/entry.hpp"
#include "models/shrink.hpp"

namespace attest::models {

// Who is asked: some builds of a runtime.
struct Subject {
  std::unique_ptr<Runtime> runtime;
  std::string name;            // a shipped runtime, or "external:NAME"
  std::filesystem::path file;  // of an external one
  std::vector<std::string> levels;
};

struct CampaignOptions {
  std::filesystem::path model;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> cases;
  std::optional<double> seconds;
  std::optional<std::size_t> further = 2;  // laws per problem and build besides `spread`; nullopt: all
  std::string law_glob;                    // exactly the laws that match, on every problem; empty: as `further` says
  graph::Precision precision;
  graph::Constraints constraints;
  Index largest =
      Index{1} << 14;  // elements of an input, of problems that are drawn; fewer where these cost much (effort.hpp)
  int jobs = 1;        // threads that evaluate graphs
  std::int64_t shrink_calls = 1000;
  bool continue_after_failure = true;
  std::filesystem::path corpus;  // where reproducers go; empty: nowhere
  const std::atomic<bool>* interrupt = nullptr;
};

// What a law came to in a campaign.
struct LawCounts {
  std::map<VerdictKind, std::uint64_t> kinds;
  std::map<std::string, std::uint64_t> skipped, vacuous;  // by reason
  double largest = 0;                                     // distance in deviations, of what held
  double largest_t = 0;                                   // likewise
};

// Failures of one runtime that one defect explains, as far as it could be told.
struct Finding {
  std::string law, key, runtime, version;
  std::string on;                 // what --on takes for the runtime
  std::set<std::string> levels;   // at which it was seen
  std::set<std::string> passing;  // at which the smallest problem passes
  std::uint64_t failures = 0, first_case = 0;
  double seconds_to_first = 0;
  graph::Problem original;
  Shrunk smallest;
  Build build;
  LawResult result;  // of the smallest problem
  std::optional<Place> place;
  std::vector<graph::Problem> after;  // what a process must be asked before
  bool flaky = false;                 // shown once, and neither by a fresh process nor by what went before
  std::set<std::string> also;         // laws
  std::filesystem::path reproducer;   // empty: nowhere
};

struct Summary {
  std::filesystem::path model;
  std::vector<std::string> subjects;  // "onnxruntime 1.31.1 (disabled, basic)"
  std::string policy;
  std::uint64_t seed = 0, cases = 0, runs = 0;  // runs: problems times builds
  double seconds = 0;
  bool interrupted = false;
  std::int64_t judged = 0, undetermined = 0;
  std::map<std::string, LawCounts> laws;
  std::vector<Finding> findings;
  std::uint64_t untold = 0;  // failures past the most findings that are told apart
  std::uint64_t slow = 0;    // runs that passed the time limit, and did not in a fresh process
  std::map<std::string, std::uint64_t>
      skipped;  // problems that the graph itself does not take, by reason, numbers as N

  // 1 with a finding; 3 where nothing was judged.
  [[nodiscard]] Exit exit() const noexcept;
};

// What happens on the way.
struct Observer {
  std::function<void(const std::string& law, const LawResult& result, const std::string& where,
                     std::uint64_t case_number, double seconds, const graph::Problem& problem)>
      failure;
  std::function<void(const Finding&)> finding;
  std::function<void(const Summary&, std::optional<double> seconds_left)> progress;
};

// Draws problems of a model and puts each to every build of every subject. Problems whose axes the graph does not take together are skipped. Throws Error(usage) where the model's inputs cannot be
// drawn, Error(no_subject) where a subject cannot be started any more.
Summary run_campaign(const Part& model, std::vector<Subject>& subjects, const CampaignOptions& options,
                     const Observer& observer);
// The same of one problem that is given, by all laws.
Summary run_problem(const Part& model, std::vector<Subject>& subjects, const graph::Problem& problem,
                    const CampaignOptions& options, const Observer& observer);

}  // namespace attest::models
