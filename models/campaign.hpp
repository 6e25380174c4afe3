#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "graph/constraints.hpp"
#include "models/given.hpp"
#include "models/known.hpp"
#include "models/summary.hpp"

namespace attest::models {

// The subject that is asked: some builds of a runtime.
struct Subject {
  std::unique_ptr<Runtime> runtime;
  std::string name;            // a shipped runtime, or "external:NAME"
  std::filesystem::path file;  // an external one's
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
  GivenInputs given;  // inputs that `constraints` have, too
  Index largest =
      Index{1} << 14;  // elements of an input, of problems that are drawn; fewer where these cost much (effort.hpp)
  int jobs = 1;        // threads that evaluate graphs
  std::int64_t shrink_calls = 1000;
  bool continue_after_failure = true;
  std::vector<KnownFailure> known{};  // failures that end nothing and fail nothing
  std::filesystem::path corpus;       // where reproducers go; empty: nowhere
  std::filesystem::path folder;       // the campaign's folder, which it goes on from; empty: none
  const std::atomic<bool>* interrupt = nullptr;
};

// Receives the events of a campaign.
struct Observer {
  std::function<void(const std::string& law, const LawResult& result, const std::string& where,
                     std::uint64_t case_number, double seconds, const graph::Problem& problem)>
      failure;
  std::function<void(const Finding&)> finding;
  std::function<void(const Summary&, std::optional<double> seconds_left)> progress;
};

// A finding as a file has it; one that is flaky has none.
Entry entry_of(const Finding& finding, const Subject& subject, const Part& model, const CampaignOptions& options);

// Draws problems of a model and puts each to every build of every subject. Problems whose axes the graph does not take
// together are skipped. Throws Error(usage) where the model's inputs cannot be drawn, and as Folder (folder.hpp),
// Error(no_subject) where a subject cannot be started any more.
Summary run_campaign(const Part& model, std::vector<Subject>& subjects, const CampaignOptions& options,
                     const Observer& observer);
// The same of one problem that is given, by all laws, which are asked of those before it first.
Summary run_problem(const Part& model, std::vector<Subject>& subjects, const graph::Problem& problem,
                    const CampaignOptions& options, const Observer& observer,
                    const std::vector<graph::Problem>& before = {});

}  // namespace attest::models
