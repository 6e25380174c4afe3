#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/cluster.hpp"
#include "engine/failure.hpp"
#include "engine/study.hpp"
#include "properties/property.hpp"

// Parts of cluster.cpp, which alone includes them.
namespace attest::engine {

// Findings of one defect, the simplest first, and one of them that speaks for all: learned from the failures of all.
struct Siblings {
  std::vector<Studied> members;
  Studied speaker;
  std::optional<Studied>
      shown{};  // learned from a minimal reproducer, where failures are too few: takes the speaker's place
};

// The questions that every rule asks of groups of findings.
class Groups {
 public:
  // All must outlive it.
  Groups(const std::vector<Finding>& findings, const Evidences& known, const Study& study)
      : findings_(findings), known_(known), study_(study) {}

 protected:
  [[nodiscard]] const Entry& entry(const Studied& studied) const { return findings_[studied.finding].entry; }
  static bool makes_calls(const Entry& entry) {
    const Law* law = find_law(entry.property);
    return law && !law->base_call() && entry.seen != VerdictKind::flaky;
  }
  // True if a predicate could tell of both: each answers alike from call to call, and fails one way.
  [[nodiscard]] bool comparable(const Siblings& a, const Siblings& b) const {
    for (const Siblings* one : {&a, &b})
      if (entry(one->speaker).seen == VerdictKind::flaky) return false;
    return kind_of(a.speaker.key) == kind_of(b.speaker.key);
  }
  [[nodiscard]] std::set<std::string> buckets_of(const Siblings& group) const {
    std::set<std::string> buckets;
    for (const Studied& member : group.members) buckets.insert(entry(member).bucket);
    return buckets;
  }
  // The number of problems known to be of these buckets that lie where a predicate holds, and the number of all of
  // them.
  struct Inside {
    std::ptrdiff_t count, of;
  };
  [[nodiscard]] Inside problems_within(const Predicate& predicate, const std::set<std::string>& buckets) const {
    const std::vector<const Row*> problems = study_.problems_of(buckets);
    return {std::ranges::count_if(problems, [&](const Row* row) { return predicate.holds(*row); }),
            std::ssize(problems)};
  }

  const std::vector<Finding>& findings_;
  const Evidences& known_;
  const Study& study_;
};

}  // namespace attest::engine
