#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/error.hpp"
#include "core/problem.hpp"
#include "core/verdict.hpp"
#include "engine/check.hpp"
#include "engine/corpus.hpp"
#include "engine/drift.hpp"

namespace attest::engine {

// One bucket of failures and what stands for it.
struct Finding {
  Entry entry;  // the reproducer: minimal problem, property, bucket, evidence, neighbours, shrink calls
  std::uint64_t case_number = 0;  // of the first failure
  double seconds_to_first = 0;
  std::uint64_t cases_to_first = 0;  // problems drawn until then
  std::uint64_t failures = 1;        // cases that fell into this bucket, shrunk or counted
  std::vector<std::string> also;     // other laws that failed on the same case
  bool known = false;                // in the corpus given by --known
  std::string reproducer;            // file; empty if none was written
};

struct PropertyCounts {
  std::map<VerdictKind, std::uint64_t> verdicts;          // all but skip and vacuous
  std::map<std::string, std::uint64_t> skipped, vacuous;  // by reason
  [[nodiscard]] std::uint64_t of(VerdictKind kind) const;
};

// What a campaign did, in the words of interfaces.md, "Machine-readable".
struct Summary {
  std::string verb, subject, subject_version, policy;  // policy: as given, empty if drawn per problem
  bool policy_declared =
      true;  // false: neither given nor declared by the subject; the most generous reading of each dtype
  std::uint64_t seed = 0;
  std::string shard;  // "i/n", empty if whole
  std::uint64_t cases = 0, executed = 0, judged = 0, judged_long = 0;
  std::map<std::string, PropertyCounts> verdicts;  // by property
  std::int64_t elements = 0, elements_long = 0, undetermined = 0, wide = 0;
  std::map<std::string, std::uint64_t> skipped, vacuous;  // by reason: problems whose policy bound ended so
  std::string assume;                                     // the predicate; empty: none
  double given_up = 0;                                    // share of the domain that `assume` excludes
  std::uint64_t rejected = 0;                             // draws that --assume turned away
  std::uint64_t failing_cases = 0;
  double seconds = 0;
  Seconds seconds_in;
  std::vector<Finding> findings;  // one per bucket, in order of case number
  DriftByPolicy drift;            // what tier three saw, by policy
  std::uint64_t next_case = 0;    // where a resumed campaign goes on
  bool interrupted = false;

  // Adds one case in case order.
  void add(const Problem& problem, const CaseOutcome& outcome);
  // 1 if a finding is not known; 3 if nothing was executed, or every verdict but the guards' was skip or vacuous; else 0.
  [[nodiscard]] Exit exit() const noexcept;
  // Why exit() is internal, in one sentence; empty otherwise.
  [[nodiscard]] std::string emptiness() const;
};

// The object that --json writes. `rerun` makes each finding's rerun line.
nlohmann::ordered_json to_json(const Summary& summary, const std::function<std::string(const Finding&)>& rerun);

// Everything a resumed campaign needs of a summary but its findings, and back. Reading throws nlohmann::json::exception.
nlohmann::ordered_json state_to_json(const Summary& summary);
void state_from_json(const nlohmann::json& object, Summary& summary);

}  // namespace attest::engine
