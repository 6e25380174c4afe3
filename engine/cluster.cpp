#include "engine/cluster.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "engine/failure.hpp"
#include "engine/learn.hpp"
#include "engine/shrink/candidates.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

constexpr std::uint64_t strong_failures = 5;  // a predicate that explains so many, and nearly all of what it holds of,
constexpr double strong_share = 0.9;          // claims what else it holds of
constexpr int most_pairs_asked = 48;          // of groups, each with up to three calls of a law
constexpr std::size_t asked_of_each = 3;
constexpr std::size_t most_keys_learned = 3;
constexpr double same_share = 0.8;  // of the failures under either of two predicates, that lie under both

// Failures that may be of one cause: wrong numbers of any class, or deaths and messages of one class under any law.
std::string kind_of(const FailureKey& key) {
  const bool number = key.kind == VerdictKind::fail && (key.what == "finite" || key.what == "nonfinite");
  return number ? std::string("number") : std::string(name(key.kind)) + "/" + key.what;
}

// A finding and what the campaign's problems say of it.
struct Studied {
  std::size_t finding = 0;
  FailureKey key;  // of the law that most of its failures show under
  std::set<std::string> shows;
  Row row;  // of the reproducer
  Learned learned;
  std::vector<const Row*> failing;
};

class Study {
 public:
  Study(const std::vector<Finding>& findings, const Evidences& known) : findings_(findings), known_(known) {}

  // Learned from the failures of its own bucket.
  [[nodiscard]] Studied of(std::size_t at) const {
    const Entry& entry = findings_[at].entry;
    const FailureKey own = failure_key_of(entry);
    Studied studied{at, own, {to_text(own)}, row_of(entry.problem, known_.table.supports()), {}, {}};
    studied.shows.insert(findings_[at].shows.begin(), findings_[at].shows.end());
    const std::set<std::string> bucket{entry.bucket};
    if (!learnable(entry)) return studied;
    choose_key(studied, bucket);
    learn_from(studied, bucket);
    return studied;
  }
  // Learned anew from those of several.
  void learn_from(Studied& studied, const std::set<std::string>& buckets) const {
    const Entry& entry = findings_[studied.finding].entry;
    if (!learnable(entry)) return;
    studied.failing.clear();
    for (const CaseRow& row : known_.table.rows())
      if (row.fails(studied.key) && is_of(row, buckets)) studied.failing.push_back(&row.traits);
    std::vector<Row> beside;
    if (studied.key == failure_key_of(entry)) beside = passing_neighbours(entry);
    const std::vector<const Row*> passing = known_.table.holding(studied.key.property);
    std::vector<const Row*> some = thinned_out(passing);
    for (const Row& row : beside) some.push_back(&row);
    const Row* anchor = &studied.row;
    studied.learned =
        learn(thinned_out(studied.failing), some, {&anchor, 1}, {.of_layout = studied.key.property == "layout"});
    studied.learned.counts = separation(studied.learned.predicate, studied.failing, passing);
  }

 private:
  static bool learnable(const Entry& entry) {
    return properties::find_property(entry.property) != nullptr && entry.seen != VerdictKind::flaky;
  }
  // Failures that fell into other buckets say nothing here.
  [[nodiscard]] bool is_of(const CaseRow& row, const std::set<std::string>& buckets) const {
    const auto found = known_.buckets.find(row.signature);
    return found == known_.buckets.end() || found->second.empty() || buckets.contains(found->second);
  }

  // Of the laws that fail on the reproducer, the one that failed in most of the problems; a proof before one that is none,
  // and before laws that are not asked of every problem.
  void choose_key(Studied& studied, const std::set<std::string>& bucket) const {
    const std::string kind = kind_of(studied.key);
    std::map<std::string, std::pair<FailureKey, std::size_t>> seen;
    for (const CaseRow& row : known_.table.rows()) {
      if (row.failures.empty() || !is_of(row, bucket)) continue;
      for (const FailureKey& key : row.failures)
        if (const std::string text = to_text(key); studied.shows.contains(text) && kind_of(key) == kind) {
          auto& [known, count] = seen[text];
          known = key;
          ++count;
        }
    }
    const auto rank = [](const FailureKey& key) {
      const properties::Property& law = *properties::find_property(key.property);
      return law.kind == properties::Kind::statistical ? 1 : law.base_call ? 3 : 2;
    };
    std::pair<int, std::size_t> most{0, 0};
    for (const auto& [text, entry] : seen)
      if (const std::pair merit{rank(entry.first), entry.second}; merit > most) {
        most = merit;
        studied.key = entry.first;
      }
  }

  std::vector<Row> passing_neighbours(const Entry& entry) const {
    std::vector<Row> rows;
    if (!entry.minimal) return rows;
    const Supports& supports = known_.table.supports();
    const std::set<std::string> tried(entry.neighbours.begin(), entry.neighbours.end());
    for (const Candidate& neighbour : neighbours(entry.problem, {supports, {}, {}}))
      if (tried.contains(neighbour.change)) rows.push_back(row_of(neighbour.problem, supports));
    return rows;
  }

  const std::vector<Finding>& findings_;
  const Evidences& known_;
};

// Nearly all of what it holds of fails.
bool strong(const Learned& learned) {
  const Separation& counts = learned.counts;
  return !learned.predicate.atoms.empty() && counts.failing >= strong_failures &&
         static_cast<double>(counts.failing) >= strong_share * static_cast<double>(counts.asked);
}
// Nearly all that fails lies inside, where failures are much more frequent.
bool necessary(const Learned& learned) {
  const auto& [failing, asked, failing_elsewhere, elsewhere] = learned.counts;
  return !learned.predicate.atoms.empty() && failing >= strong_failures && 20 * failing_elsewhere <= failing &&
         failing * elsewhere >= 10 * failing_elsewhere * asked;
}

bool alike(const Studied& a, const Studied& b) {
  if (a.learned.predicate == b.learned.predicate) return true;
  if (a.key != b.key) return false;
  std::size_t both = 0, either = 0;
  for (const auto* rows : {&a.failing, &b.failing})
    for (const Row* row : *rows) {
      const bool in_a = a.learned.predicate.holds(*row), in_b = b.learned.predicate.holds(*row);
      both += in_a && in_b;
      either += in_a || in_b;
    }
  return either > 0 && static_cast<double>(both) >= same_share * static_cast<double>(either);
}

// A bucket but for the law and the class of the wrong value.
std::string conditions(const std::string& bucket) {
  const std::size_t at = bucket.find(':');
  return at == std::string::npos ? bucket : bucket.substr(at);
}

bool one_defect(const std::vector<Finding>& findings, const Studied& a, const Studied& b) {
  const Entry &entry_a = findings[a.finding].entry, &entry_b = findings[b.finding].entry;
  if (entry_a.seen == VerdictKind::flaky || entry_b.seen == VerdictKind::flaky) return entry_a.seen == entry_b.seen;
  if (kind_of(a.key) != kind_of(b.key)) return false;
  if (conditions(entry_a.bucket) == conditions(entry_b.bucket)) return true;
  const bool one_law = a.key == b.key || a.shows.contains(to_text(b.key)) || b.shows.contains(to_text(a.key));
  if (strong(a.learned) && a.learned.predicate.holds(b.row)) return true;
  if (strong(b.learned) && b.learned.predicate.holds(a.row)) return true;
  if (necessary(a.learned) && !strong(b.learned) && a.learned.predicate.holds(b.row)) return true;
  if (necessary(b.learned) && !strong(a.learned) && b.learned.predicate.holds(a.row)) return true;
  return one_law && alike(a, b);
}

using Siblings = std::vector<Studied>;

bool makes_calls(const Entry& entry) {
  const properties::Property* law = properties::find_property(entry.property);
  return law && !law->base_call && entry.seen != VerdictKind::flaky;
}

// Asks laws about reproducers.
class Asking {
 public:
  Asking(const std::vector<Finding>& findings, const Evidences& known) : findings_(findings), known_(known) {}

  // Whether `other` is what `group` is about, as cluster() says.
  bool belongs(const Siblings& other, const Siblings& group) const {
    if (kind_of(group.front().key) != kind_of(other.front().key)) return false;
    if (entry(group.front()).seen == VerdictKind::flaky || entry(other.front()).seen == VerdictKind::flaky)
      return false;
    if (std::ranges::all_of(other, [&](const Studied& s) { return makes_calls(entry(s)); }))
      return fails_there(other, group) || enters(other, group);
    return few(other, group) && group.front().key.property != other.front().key.property &&
           fails(entry(other.front()), group.front());
  }

 private:
  [[nodiscard]] const Entry& entry(const Studied& studied) const { return findings_[studied.finding].entry; }
  [[nodiscard]] bool fails(const Entry& at, const Studied& told) const {
    if (at.seen != VerdictKind::fail) return false;  // a death is not asked for once more
    const auto shown = known_.probe(at, entry(told).property).shown;
    return shown && kind_of(*shown) == kind_of(told.key);
  }
  [[nodiscard]] bool fails_there(const Siblings& other, const Siblings& group) const {
    const std::size_t count = std::min(group.size(), asked_of_each);
    return std::any_of(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](const Studied& at) { return fails(entry(at), other.front()); });
  }
  // A call of the law lies where the group's predicate holds, and its problem does not.
  [[nodiscard]] bool enters(const Siblings& other, const Siblings& group) const {
    const Supports& supports = known_.table.supports();
    const Entry& told = entry(other.front());
    const auto holds = [&](const Row& row) {
      return std::ranges::any_of(group, [&](const Studied& studied) {
        return (strong(studied.learned) || necessary(studied.learned)) && studied.learned.predicate.holds(row);
      });
    };
    if (told.seen == VerdictKind::crash || told.seen == VerdictKind::timeout || holds(other.front().row)) return false;
    const std::vector<Problem> calls = known_.probe(told, told.property).calls;
    return std::ranges::any_of(calls, [&](const Problem& call) { return holds(row_of(call, supports)); });
  }
  [[nodiscard]] bool few(const Siblings& other, const Siblings& group) const {
    const auto failures = [&](const Siblings& of) {
      std::uint64_t sum = 0;
      for (const Studied& studied : of) sum += findings_[studied.finding].failures;
      return sum;
    };
    return failures(other) < strong_failures && failures(group) >= 10 * failures(other);
  }

  const std::vector<Finding>& findings_;
  const Evidences& known_;
};

void sort_simplest_first(const std::vector<Finding>& findings, Siblings& group) {
  std::ranges::sort(group, [&](const Studied& a, const Studied& b) {
    const Entry &first = findings[a.finding].entry, &second = findings[b.finding].entry;
    if (simpler(first, second) != simpler(second, first)) return simpler(first, second);
    return a.finding < b.finding;
  });
}

// Every finding by itself; one may bring groups together that were apart.
std::vector<Siblings> by_data(const std::vector<Finding>& findings, const Study& study) {
  std::vector<Siblings> groups;
  for (std::size_t at = 0; at < findings.size(); ++at) {
    Siblings mine;
    mine.push_back(study.of(at));
    for (std::size_t g = 0; g < groups.size();) {
      const bool one = std::ranges::any_of(
          groups[g], [&](const Studied& other) { return one_defect(findings, mine.front(), other); });
      if (one) {
        std::ranges::move(groups[g], std::back_inserter(mine));
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
      } else {
        ++g;
      }
    }
    groups.push_back(std::move(mine));
  }
  for (Siblings& group : groups) sort_simplest_first(findings, group);
  return groups;
}

void by_asking(const std::vector<Finding>& findings, std::vector<Siblings>& groups, const Evidences& known) {
  const Asking asking(findings, known);
  int left = most_pairs_asked;
  for (std::size_t o = 0; o < groups.size();) {
    const auto home = std::ranges::find_if(groups, [&](const Siblings& group) {
      return &group != &groups[o] && left-- > 0 && asking.belongs(groups[o], group);
    });
    if (home == groups.end()) {
      ++o;
      continue;
    }
    std::ranges::move(groups[o], std::back_inserter(*home));
    sort_simplest_first(findings, *home);
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(o));
  }
}

Defect defect_of(const std::vector<Finding>& findings, const Study& study, Siblings& group) {
  Defect defect;
  std::set<std::string> buckets;
  for (const Studied& studied : group) buckets.insert(findings[studied.finding].entry.bucket);
  // Its smallest reproducer speaks for it, under the key that tells most.
  const Studied* best = nullptr;
  std::set<std::string> keys;
  for (Studied& studied : group) {
    defect.findings.push_back(studied.finding);
    defect.failures += findings[studied.finding].failures;
    if (keys.size() >= most_keys_learned || !keys.insert(to_text(studied.key)).second) continue;
    study.learn_from(studied, buckets);
    if (!best || studied.learned.bits > best->learned.bits) best = &studied;
  }
  defect.key = best->key;
  defect.predicate = best->learned.predicate;
  defect.counts = best->learned.counts;
  defect.known = std::ranges::all_of(defect.findings, [&](std::size_t i) { return findings[i].known; });
  return defect;
}

}  // namespace

std::vector<Defect> cluster(const std::vector<Finding>& findings, const Evidences& known) {
  const Study study(findings, known);
  std::vector<Siblings> groups = by_data(findings, study);
  if (known.probe) by_asking(findings, groups, known);
  std::vector<Defect> defects;
  for (Siblings& group : groups) defects.push_back(defect_of(findings, study, group));
  std::ranges::sort(defects, {}, [&](const Defect& defect) {
    std::uint64_t first = UINT64_MAX;
    for (const std::size_t i : defect.findings) first = std::min(first, findings[i].case_number);
    return first;
  });
  return defects;
}

bool explains(const Summary& summary, const Defect& defect, const AvoidRule& rule, const Supports& supports) {
  return std::ranges::any_of(defect.findings, [&](std::size_t i) {
    const Finding& finding = summary.findings[i];
    const std::string key = to_text(rule.key);
    const bool fails =
        to_text(failure_key_of(finding.entry)) == key || std::ranges::find(finding.shows, key) != finding.shows.end();
    return fails && rule.predicate.holds(finding.entry.problem, supports);
  });
}

}  // namespace attest::engine
