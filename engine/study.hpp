#pragma once
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/case_table.hpp"
#include "engine/learn.hpp"
#include "engine/summary.hpp"

namespace attest::engine {

// Failures that may be of one cause: wrong numbers of any class, or deaths and messages of one class under any law.
std::string kind_of(const FailureKey& key);
bool in_one_way(const FailureKey& a, const FailureKey& b);  // and under the same law

// A finding and what the campaign's problems say of it.
struct Studied {
  std::size_t finding = 0;      // position among the findings
  FailureKey key;               // of the law that most of its failures show under
  std::set<std::string> shows;  // keys of the laws that fail on its reproducer
  Row row;                      // of the reproducer
  Learned learned;
  std::vector<const Row*> failing;  // the failures it was learned from
};

// Learns where findings show. Failures that fell into buckets of others say nothing about one, and of those that nobody shrank
// the ones that another explains better neither; a neighbour of a minimal reproducer passes. All arguments must outlive it.
class Study {
 public:
  // `buckets`: by the signature of a row that failed.
  Study(const std::vector<Finding>& findings, const CaseTable& table, const std::map<std::string, std::string>& buckets)
      : findings_(findings), table_(table), buckets_(buckets), elsewhere_(findings.size()) {}

  // Every finding, from the failures of its own bucket.
  [[nodiscard]] std::vector<Studied> all();
  // From those of several buckets; it then holds of the reproducer of `other` too, if there is one.
  void learn_from(Studied& studied, const std::set<std::string>& buckets, const Studied* other = nullptr) const;
  // Those of `buckets` that failed in one way with `key`.
  [[nodiscard]] std::vector<const Row*> failing(const FailureKey& key, const std::set<std::string>& buckets) const;
  // What it takes to say which problems failed by the law of `studied`, given these predicates (learn.hpp).
  [[nodiscard]] double bits_given(const Studied& studied, std::initializer_list<const Predicate*> predicates) const;

 private:
  [[nodiscard]] Studied of(std::size_t finding) const;
  // `null`: of no bucket, since failures of its signature were not shrunk.
  [[nodiscard]] const std::string* bucket_of(const CaseRow& row) const;
  [[nodiscard]] bool is_of(const CaseRow& row, const std::set<std::string>& buckets) const;
  [[nodiscard]] std::unordered_set<const Row*> explained_elsewhere(const Studied& studied,
                                                                   const std::vector<Studied>& others) const;
  void choose_key(Studied& studied, const std::set<std::string>& bucket) const;
  [[nodiscard]] std::vector<Row> passing_neighbours(const Entry& entry) const;

  const std::vector<Finding>& findings_;
  const CaseTable& table_;
  const std::map<std::string, std::string>& buckets_;
  std::vector<std::unordered_set<const Row*>> elsewhere_;  // by finding: rows of no bucket that others explain better
};

// How much a law's failures say: a proof about every problem more than one about some, and both more than statistics.
int weight_of(const FailureKey& key);

inline constexpr std::uint64_t enough_failures = 5;  // for a predicate to be believed
// Nearly all of what it holds of fails.
bool sufficient(const Learned& learned);
// Nearly all that fails lies inside, where failures are much more frequent than elsewhere.
bool necessary(const Learned& learned);
// Whether two predicates separate the same failures.
bool alike(const Studied& a, const Studied& b);

}  // namespace attest::engine
