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
constexpr double same_share = 0.8;            // of the failures under either of two predicates, that lie under both

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
  explicit Study(const CaseTable& table) : table_(table) {}

  Studied of(const std::vector<Finding>& findings, std::size_t at) const {
    const Entry& entry = findings[at].entry;
    Studied studied{
        at, failure_key_of(entry), {to_text(failure_key_of(entry))}, row_of(entry.problem, table_.supports()), {}, {}};
    studied.shows.insert(findings[at].shows.begin(), findings[at].shows.end());
    if (!properties::find_property(entry.property) || entry.seen == VerdictKind::flaky) return studied;
    choose_key(studied);
    studied.failing = table_.failing(studied.key);
    std::vector<Row> beside;
    if (studied.key == failure_key_of(entry)) beside = passing_neighbours(entry);
    std::vector<const Row*> passing = table_.holding(studied.key.property);
    const std::size_t asked = passing.size();
    for (const Row& row : beside) passing.push_back(&row);
    const Row* anchor = &studied.row;
    studied.learned = learn(studied.failing, passing, {&anchor, 1}, {});
    passing.resize(asked);
    studied.learned.counts = separation(studied.learned.predicate, studied.failing, passing);
    return studied;
  }

 private:
  // Of the laws that fail on the reproducer, the one that failed in most of the campaign's problems.
  void choose_key(Studied& studied) const {
    const std::string kind = kind_of(studied.key);
    std::map<std::string, std::pair<FailureKey, std::size_t>> seen;
    for (const CaseRow& row : table_.rows())
      for (const FailureKey& key : row.failures)
        if (const std::string text = to_text(key); studied.shows.contains(text) && kind_of(key) == kind) {
          auto& [known, count] = seen[text];
          known = key;
          ++count;
        }
    std::size_t most = 0;
    for (const auto& [text, entry] : seen)
      if (entry.second > most) {
        most = entry.second;
        studied.key = entry.first;
      }
  }

  std::vector<Row> passing_neighbours(const Entry& entry) const {
    std::vector<Row> rows;
    if (!entry.minimal) return rows;
    const std::set<std::string> tried(entry.neighbours.begin(), entry.neighbours.end());
    for (const Candidate& neighbour : neighbours(entry.problem, {table_.supports(), {}, {}}))
      if (tried.contains(neighbour.change)) rows.push_back(row_of(neighbour.problem, table_.supports()));
    return rows;
  }

  const CaseTable& table_;
};

bool strong(const Learned& learned) {
  const Separation& counts = learned.counts;
  return !learned.predicate.atoms.empty() && counts.failing >= strong_failures &&
         static_cast<double>(counts.failing) >= strong_share * static_cast<double>(counts.asked);
}

bool alike(const Studied& a, const Studied& b) {
  if (a.learned.predicate == b.learned.predicate) return true;
  if (a.key != b.key) return false;
  std::size_t both = 0, either = 0;
  for (const Row* row : a.failing) {
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
  return one_law && alike(a, b);
}

}  // namespace

std::vector<Defect> cluster(const std::vector<Finding>& findings, const CaseTable& table) {
  const Study study(table);
  std::vector<std::vector<Studied>> groups;
  for (std::size_t at = 0; at < findings.size(); ++at) {
    std::vector<Studied> mine;
    mine.push_back(study.of(findings, at));
    // It may bring groups together that were apart.
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
  std::vector<Defect> defects;
  for (std::vector<Studied>& group : groups) {
    std::ranges::sort(group, [&](const Studied& a, const Studied& b) {
      const Entry &first = findings[a.finding].entry, &second = findings[b.finding].entry;
      if (simpler(first, second) != simpler(second, first)) return simpler(first, second);
      return a.finding < b.finding;
    });
    Defect defect;
    const Studied* best = &group.front();
    for (const Studied& studied : group) {
      defect.findings.push_back(studied.finding);
      defect.failures += findings[studied.finding].failures;
      if (studied.learned.bits > best->learned.bits) best = &studied;
    }
    defect.key = best->key;
    defect.predicate = best->learned.predicate;
    defect.counts = best->learned.counts;
    defect.known = std::ranges::all_of(defect.findings, [&](std::size_t i) { return findings[i].known; });
    defects.push_back(std::move(defect));
  }
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
