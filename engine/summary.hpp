#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/error.hpp"
#include "core/problem.hpp"
#include "core/verdict.hpp"
#include "engine/check.hpp"
#include "engine/corpus.hpp"
#include "engine/explain/explain.hpp"
#include "engine/learn.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// One bucket of failures and what stands for it.
struct Finding {
  Entry entry;  // the reproducer: minimal problem, property, bucket, evidence, neighbours, shrink calls
  std::uint64_t case_number = 0;  // the case of the first failure
  double seconds_to_first = 0;
  std::uint64_t cases_to_first = 0;  // problems drawn until then
  std::uint64_t failures = 1;        // cases that fell into this bucket, shrunk or counted
  std::vector<std::string> also;     // other laws that failed on the same case
  std::vector<std::string> shows;    // keys of all laws of that case that fail on the reproducer
  bool known = false;                // in the corpus given by --known
  std::string known_as;              // the entry there that tells it at the end, "ort-attention-14"
  std::string reproducer;            // file; empty if none was written

  // Tells whether it tells one case as it was seen, and nothing else, which was shrunk to a problem of that bucket
  // since.
  [[nodiscard]] bool is_replaced_by(std::uint64_t shrunk_case, std::string_view bucket) const {
    return failures == 0 && !entry.minimal && case_number == shrunk_case && entry.bucket != bucket;
  }
};

// The precision that a kernel in fact computes in, if its numbers break the policy that was asked for (effective.hpp).
struct Effective {
  Policy requested;
  std::vector<Policy>
      fits;  // the widest narrower policies that permit all of them; empty: none of those that were tried
  std::vector<std::string> otherwise{};  // readings that permit them under `requested` itself: "variance=one_pass"
};

// A decision to live with a defect until a day: it is listed with the reason, and fails nothing until that day is over.
struct Waiver {
  std::string reason;
  std::string until;  // "2027-03-31", the last day, in UTC
  bool over = false;
  friend bool operator==(const Waiver&, const Waiver&) = default;
};

// One defect: the buckets that belong to it, and the place where it shows.
struct Defect {
  std::vector<std::size_t> findings;  // positions in Summary::findings, first the smallest that the predicate holds of
  FailureKey key;                     // the key of the failures that the predicate was learned from
  Predicate predicate;                // no atoms: nothing tells failing problems from others
  Separation counts;                  // counts of the campaign's problems that the law gave a verdict on
  std::uint64_t failures = 0;         // cases that fell into its buckets
  bool known = false;                 // all of its buckets are
  std::vector<Waiver> waivers{};      // whose entries tell one of its buckets
  std::optional<Effective> effective{};
  std::optional<Explanation> explanation;  // explains its reproducer; absent where none was sought
};

// A condition that a campaign no longer drew, or no longer asked, but for one case in twenty.
struct Avoided {
  std::string predicate;  // "scale<=0", "law==layout && other_layout==odd_base"
  std::uint64_t failing = 0, asked = 0;
  std::size_t defect = 0;  // 1-based; 0: one of an earlier campaign, or none of those found
};

struct PropertyCounts {
  std::map<VerdictKind, std::uint64_t> verdicts;          // all but skip and vacuous
  std::map<std::string, std::uint64_t> skipped, vacuous;  // by reason
  [[nodiscard]] std::uint64_t of(VerdictKind kind) const;
};

// A law's warning, or a difference that the contracts of two subjects leave open: the number of problems that show it,
// and the one whose evidence has the largest ratio, the first among equals.
struct Warned {
  std::uint64_t problems = 0;
  std::string problem;
  Evidence evidence;
  void add(const Warned& more);
};

// The result of a campaign, in the words of docs/cli.md.
struct Summary {
  std::string subject_b, subject_b_version;            // the second of two subjects
  std::string verb, subject, subject_version, policy;  // policy: as given, empty if drawn per problem
  bool policy_declared =
      true;  // false: neither given nor declared by the subject; the most generous reading of each dtype
  std::vector<std::pair<Format, std::string>> assumed;  // policies that probes showed, by dtype, where none is declared
  std::uint64_t seed = 0;
  std::uint64_t repeat = 1;  // for how many cases each plan was kept
  std::string shard;         // "i/n", empty if whole
  std::uint64_t cases = 0, executed = 0, judged = 0, judged_long = 0;
  std::map<std::string, PropertyCounts> verdicts;  // by property
  const Op* op = ops::all_ops().front();           // under test
  std::int64_t elements = 0, elements_long = 0, undetermined = 0, wide = 0;
  std::map<std::string, std::uint64_t> skipped, vacuous;  // by reason: problems whose policy bound ended so
  std::string assume;                                     // the predicate; empty: none
  double given_up = 0;                                    // share of the domain that `assume` excludes
  std::uint64_t rejected = 0;                             // draws that --assume turned away
  std::uint64_t failing_cases = 0;
  std::uint64_t refused = 0;  // cases whose own call the subject said that it does not take
  std::uint64_t cut_off = 0;  // cases under way when time was over: not among `cases`
  std::uint64_t slow = 0;     // cases that passed the time limit, and did not when they were asked once more, alone
  double seconds = 0;
  Seconds seconds_in;
  std::vector<Finding> findings;  // one per bucket, in order of case number
  std::vector<Defect> defects;    // the defects behind them, in the same order
  std::vector<Avoided> avoided;
  std::uint64_t redrawn = 0;             // problems drawn in place of others that are understood
  std::uint64_t laws_left_out = 0;       // laws not asked where they are known to fail
  std::uint64_t unshrunk = 0;            // failures that were to be shrunk when the campaign ended
  std::map<std::string, Warned> warned;  // by law; for two subjects by question
  std::uint64_t next_case = 0;           // where a resumed campaign goes on
  bool interrupted = false;
  std::string silent;  // the reason for an early end, in one sentence: since when no call returns; empty otherwise
  std::uint64_t earlier_cases = 0;  // those of `cases` drawn by the runs that this one goes on from

  // The finding of a defect whose first failure came first: where the defect was met.
  [[nodiscard]] const Finding& first_of(const Defect& defect) const;
  // The entries that tell a known defect, each once.
  [[nodiscard]] std::set<std::string> known_as(const Defect& defect) const;
  // nullptr if no failure fell into that bucket.
  [[nodiscard]] Finding* finding_of(const std::string& bucket);
  // Adds one case in case order.
  void add(const Problem& problem, const CaseOutcome& outcome);
  // 1 if a finding is not known; else 130 if a signal ended it; 5 if unjudged() says why; else 0.
  [[nodiscard]] Exit exit() const noexcept;
  // Why this says nothing of the subject, in one sentence; empty otherwise: nothing was executed, or every verdict but
  // the guards' was skip or vacuous.
  [[nodiscard]] std::string emptiness() const;
  // The same, or why it says too little: the bound judged no element, or the subject refused more than half of the
  // problems.
  [[nodiscard]] std::string unjudged() const;
};

// The object that --json writes. `rerun` makes each finding's rerun line.
nlohmann::ordered_json to_json(const Summary& summary, const std::function<std::string(const Finding&)>& rerun);

// Everything a resumed campaign needs of a summary but its findings, and back. Reading throws
// nlohmann::json::exception.
nlohmann::ordered_json state_to_json(const Summary& summary);
void state_from_json(const nlohmann::json& object, Summary& summary);

}  // namespace attest::engine
