#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/case_table.hpp"
#include "engine/learn.hpp"
#include "engine/shrink/candidates.hpp"
#include "engine/summary.hpp"

namespace attest::engine {

// Failures that may be of one cause: wrong numbers of any class, or deaths and messages of one class under any law.
std::string kind_of(const FailureKey& key);
bool in_one_way(const FailureKey& a, const FailureKey& b);  // and under the same law

// The neighbours of a minimal reproducer, none of which fails like it: entries keep their names.
std::vector<Candidate> tried_neighbours(const Entry& entry, const Supports& supports);

// A finding and what the campaign's problems say of it.
struct Studied {
  std::size_t finding = 0;      // position among the findings
  FailureKey key;               // the law that most of its failures show under
  std::set<std::string> shows;  // keys of the laws that fail on its reproducer
  Row row;  // the reproducer's; for a law that could not go on, that of the call not done, if it is known
  Learned learned;
  std::vector<const Row*> failing;  // the failures it was learned from
  bool of_calls = false;  // rows are those of calls not done, whatever law made them; else of the law's problems
  std::size_t own = 0;    // failures in problems of its own bucket: failures that nobody shrank may be of any defect
};

// The call that was not done when a law was asked of an entry once more; nullopt if it is not known, or was the entry's
// own.
using UndoneCall = std::function<std::optional<Problem>(const Entry& at)>;

// Learns where findings show. An error or a death is of the call that was not done, whatever law made it: the calls are
// what fails, and the problems whose own call was done are what passes. Failures that fell into buckets of others say
// nothing about one, and of those that nobody shrank the ones that another explains better neither; a neighbour of a
// minimal reproducer passes. All arguments must outlive it.
class Study {
 public:
  // `buckets`: by the signature of a row that failed. `undone` may be empty: nothing is asked.
  Study(const std::vector<Finding>& findings, const CaseTable& table, const std::map<std::string, std::string>& buckets,
        UndoneCall undone = {})
      : findings_(findings),
        table_(table),
        buckets_(buckets),
        undone_(std::move(undone)),
        elsewhere_(findings.size()) {}

  // Every finding, from the failures of its own bucket.
  [[nodiscard]] std::vector<Studied> all();
  // Learns from the failures of several buckets; the predicate then holds of the reproducers of `others` too.
  void learn_from(Studied& studied, const std::set<std::string>& buckets,
                  const std::vector<const Studied*>& others = {}) const;
  // Learns from a minimal reproducer that failed too seldom for more, and from failures that fell into `buckets`, for
  // others may be of any defect. Returns whether that told anything.
  bool learn_from_neighbours(Studied& studied, const std::set<std::string>& buckets) const;
  // The problems that are known to be of these buckets, in whatever way they failed.
  [[nodiscard]] std::vector<const Row*> problems_of(const std::set<std::string>& buckets) const;
  // The number of its failures in problems that are known to be of these buckets.
  [[nodiscard]] std::size_t own_failures(const Studied& studied, const std::set<std::string>& buckets) const;
  // Tells whether a predicate says what a minimal reproducer needs: it holds of it, and of no neighbour that passes
  // with other options.
  [[nodiscard]] bool is_need(const Predicate& predicate, const Studied& studied) const;
  // Tells whether such a neighbour lies where it holds.
  [[nodiscard]] bool is_refuted(const Predicate& predicate, const Studied& studied) const;
  // The forms of a minimal reproducer without which it passes, as "past=half".
  [[nodiscard]] const std::set<std::string>& forms_needed(const Studied& studied) const {
    return passing_neighbours(studied.finding).needed;
  }
  // Tells whether it fails in a form of its own, of which a predicate says nothing: in another it passes, where the
  // predicate holds all the same.
  [[nodiscard]] bool needs_a_form_beside(const Predicate& predicate, const Studied& studied) const;
  // The rows that failed as `studied` did, in problems of `buckets`.
  [[nodiscard]] std::vector<const Row*> failing(const Studied& studied, const std::set<std::string>& buckets) const;
  // The bits that say which problems failed by the law of `studied`, given these predicates (learn.hpp).
  [[nodiscard]] double bits_given(const Studied& studied, std::initializer_list<const Predicate*> predicates) const;

 private:
  [[nodiscard]] Studied of(std::size_t finding) const;
  // nullptr if it has none, since failures of its signature were not shrunk.
  [[nodiscard]] const std::string* bucket_of(const CaseRow& row) const;
  [[nodiscard]] bool is_of(const CaseRow& row, const std::set<std::string>& buckets) const;
  [[nodiscard]] std::unordered_set<const Row*> explained_elsewhere(const Studied& studied,
                                                                   const std::vector<Studied>& others) const;
  void choose_key(Studied& studied, const std::set<std::string>& bucket) const;
  // The rows that pass where those of `studied` fail.
  [[nodiscard]] std::vector<const Row*> passing(const Studied& studied) const;
  // Neighbours of a minimal reproducer that pass: those that say more than that other numbers pass, and those that do
  // not.
  struct Neighbours {
    std::vector<Row> options, values;
    std::vector<Row> settings, forms;  // those of the options that have other settings alone, and another form alone
    std::set<std::string> needed;      // values of the reproducer in place of such a form
  };
  [[nodiscard]] const Neighbours& passing_neighbours(std::size_t finding) const;
  [[nodiscard]] std::vector<const Row*> own_failing(const Studied& studied, const std::set<std::string>& buckets) const;

  const std::vector<Finding>& findings_;
  const CaseTable& table_;
  const std::map<std::string, std::string>& buckets_;
  const UndoneCall undone_;
  std::vector<std::unordered_set<const Row*>> elsewhere_;  // by finding: rows of no bucket that others explain better
  mutable std::map<std::size_t, Neighbours> neighbours_;   // by finding, as far as they were asked for
};

// The weight of a law's failures: one that asks of the problem itself has more than one that makes calls of its own.
int weight_of(const FailureKey& key);

inline constexpr std::uint64_t enough_failures = 5;  // for a predicate to be believed
// Nearly all of what it holds of fails.
bool sufficient(const Learned& learned);
// Failures are ten times as frequent inside as elsewhere.
bool separates(const Learned& learned);
// Tells whether that is so, and nearly all failures lie inside.
bool necessary(const Learned& learned);
// Tells whether two predicates separate the same failures.
bool alike(const Studied& a, const Studied& b);

}  // namespace attest::engine
