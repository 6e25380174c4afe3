#include "engine/known.hpp"

#include <algorithm>
#include <utility>

#include "engine/study.hpp"
#include "properties/property.hpp"

namespace attest::engine {

namespace {

// A bucket but for the law, and for whether wrong numbers were finite.
std::string without_law(std::string_view bucket) {
  const std::size_t law = bucket.find('/'), key = bucket.find(':');
  if (law == std::string_view::npos || key == std::string_view::npos || law > key) return std::string(bucket);
  const std::string_view seen = bucket.substr(law, key - law);
  const bool number = seen == "/fail/finite" || seen == "/fail/nonfinite";
  return std::string(number ? "number" : seen) + std::string(bucket.substr(key));
}

}  // namespace

bool is_known(const std::set<std::string>& buckets, std::string_view bucket) {
  return std::ranges::any_of(
      buckets, [wanted = without_law(bucket)](const std::string& known) { return without_law(known) == wanted; });
}

std::vector<Entry> known_entries(const std::filesystem::path& corpus) {
  std::vector<Entry> entries;
  for (const std::filesystem::path& file : corpus_files({corpus}))
    if (Entry entry = read_entry(file); entry.expect == VerdictKind::fail) entries.push_back(std::move(entry));
  return entries;
}

void mark_known(Summary& summary, const std::vector<Entry>& entries, const Supports& supports) {
  const auto in_one_kind = [](const FailureKey& a, const FailureKey& b) { return kind_of(a) == kind_of(b); };
  for (Defect& defect : summary.defects) {
    if (defect.known) continue;
    const auto member = [&](std::size_t i) -> const Finding& { return summary.findings[i]; };
    const auto has_its_bucket = [&](std::size_t i) {
      return member(i).known && in_one_kind(failure_key_of(member(i).entry), defect.key);
    };
    const auto meets_its_condition = [&](const Entry& entry) {
      return in_one_way(failure_key_of(entry), defect.key) && sufficient({defect.predicate, defect.counts, 0, 0}) &&
             defect.predicate.holds(entry.problem, supports);
    };
    const auto says_the_condition = [&](const Entry& entry) {
      if (!entry.explained || !in_one_kind(entry.explained->key, defect.key)) return false;
      const Law* law = find_law(entry.explained->key.property);
      if (law == nullptr || (!law->base_call() && !in_one_way(entry.explained->key, defect.key))) return false;
      const auto its = predicate_from_text(entry.explained->predicate, entry.problem.op());
      return its && sufficient({*its, entry.explained->counts, 0, 0}) &&
             std::ranges::all_of(defect.findings,
                                 [&](std::size_t i) { return its->holds(member(i).entry.problem, supports); });
    };
    const auto tells = [&](const Entry& entry) {
      return &entry.problem.op() == summary.op && entry.subject == member(defect.findings.front()).entry.subject &&
             (meets_its_condition(entry) || says_the_condition(entry));
    };
    if (!std::ranges::any_of(defect.findings, has_its_bucket) && !std::ranges::any_of(entries, tells)) continue;
    defect.known = true;
    for (const std::size_t i : defect.findings) summary.findings[i].known = true;
  }
}

std::vector<KnownDefect> known_defects(const std::filesystem::path& corpus) {
  std::vector<KnownDefect> defects;
  for (const std::filesystem::path& file : corpus_files({corpus})) {
    Entry entry = read_entry(file);
    if (entry.expect != VerdictKind::fail || !entry.explained) continue;
    const auto& [key, text, counts] = *entry.explained;
    const auto predicate = predicate_from_text(text, entry.problem.op());
    if (!predicate || predicate->atoms.empty() || counts.failing < least_explained || counts.failing < counts.asked)
      continue;
    const Law* law = find_law(key.property);
    if (law) defects.push_back({{key, *predicate, law->base_call(), true, 0, 0, false}, std::move(entry), file});
  }
  return defects;
}

}  // namespace attest::engine
