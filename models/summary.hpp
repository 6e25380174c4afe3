#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/error.hpp"
#include "engine/summary.hpp"
#include "models/condition.hpp"
#include "models/coverage.hpp"
#include "models/entry.hpp"
#include "models/proven.hpp"
#include "models/shrink.hpp"

namespace attest::models {

// The counts of a law in a campaign.
struct LawCounts {
  std::map<VerdictKind, std::uint64_t> kinds;
  std::map<std::string, std::uint64_t> skipped, vacuous;  // by reason, see count_reason
  double largest = 0;                                     // distance in deviations, of what held
  double largest_t = 0;                                   // likewise
};

// Failures of one runtime that one defect explains, as far as it could be told.
struct Finding {
  std::string law, key, runtime, version;
  std::string on;                 // the runtime as --on takes it
  std::set<std::string> levels;   // where it was seen
  std::set<std::string> passing;  // at which the smallest problem passes
  std::uint64_t failures = 0, first_case = 0;
  double seconds_to_first = 0;
  graph::Problem original;
  Shrunk smallest;  // `after`: problems that a process must be asked before
  Build build;
  LawResult result;  // on the smallest problem
  std::optional<Place> place;
  bool flaky = false;          // shown once, and neither by a fresh process nor by what went before
  std::set<std::string> also;  // laws
  // The keys of failures by other laws that are of the same defect, with the first wrong tensor as those laws see it,
  // or none.
  std::map<std::string, std::string> others{};
  std::filesystem::path reproducer;       // empty: nowhere
  std::optional<Condition> condition;     // under which it shows, where that was learned
  std::string known_as{};                 // the entry of --known that tells it, "ort-attention-1"; empty: new
  std::vector<engine::Waiver> waivers{};  // whose entries tell it
};

struct Summary {
  std::filesystem::path model;
  std::filesystem::path inputs{};     // the owner's; mostly none
  std::vector<std::string> subjects;  // "onnxruntime 1.31.1 (disabled, basic)"
  std::string policy;
  std::uint64_t seed = 0, cases = 0, runs = 0;  // runs: problems times builds
  std::uint64_t resumed = 0;                    // cases of it that an earlier run had done
  double seconds = 0;
  bool interrupted = false;
  std::int64_t judged = 0, undetermined = 0;  // elements of outputs, by `spread`
  std::int64_t proven = 0;                    // elements of parts, held to proven bounds
  std::map<std::string, LawCounts> laws;
  std::vector<KnownPart> parts{};  // those that `proven-bound` asks, and the others
  // Remarks of runtimes on the model when they compiled it: "onnxruntime all+PROVIDER", and a line.
  std::map<std::string, std::string> notes{};
  std::vector<Finding> findings;
  std::uint64_t untold = 0;  // failures past the most findings that are told apart
  bool cut_short = false;    // the end of the time came while a further problem was asked, which is not counted
  std::uint64_t slow = 0;    // runs that passed the time limit, and did not in a fresh process
  std::map<std::string, std::uint64_t> skipped;  // problems that the graph itself does not take, by reason
  std::optional<Coverage> coverage{};            // present for a campaign that has a folder

  // 1 with a new finding; else 130 if a signal ended it; 5 where nothing was judged.
  [[nodiscard]] Exit exit() const noexcept;
};

// Counts a reason under the first one that says the same but for its numbers.
void count_reason(std::map<std::string, std::uint64_t>& reasons, const std::string& reason);

// A finding as a campaign's folder keeps it: all but how often it failed and the tensors of its segment, which lie
// beside its reproducer.
nlohmann::ordered_json to_json(const Finding& finding);
// Throws nlohmann's exceptions and Error(usage) for what to_json does not give.
Finding finding_from_json(const nlohmann::json& object);
// The counts of a campaign so far; findings by their order: how often, at which levels, by which laws.
nlohmann::ordered_json state_to_json(const Summary& summary);
// `summary` has the findings already. Throws likewise.
void state_from_json(const nlohmann::json& state, Summary& summary);

}  // namespace attest::models
