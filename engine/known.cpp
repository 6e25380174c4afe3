#include "engine/known.hpp"

#include <algorithm>
#include <iterator>
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

// Tells whether two laws tell failures of one kind alike: one law, or two that judge the problem's own call.
bool tell_alike(const FailureKey& a, const FailureKey& b) {
  const auto of_its_call = [](const FailureKey& key) {
    const Law* law = find_law(key.property);
    return law && law->base_call();
  };
  return in_one_way(a, b) || (kind_of(a) == kind_of(b) && of_its_call(a) && of_its_call(b));
}

}  // namespace

bool is_known(const std::set<std::string>& buckets, std::string_view bucket) {
  return std::ranges::any_of(
      buckets, [wanted = without_law(bucket)](const std::string& known) { return without_law(known) == wanted; });
}

std::vector<KnownEntry> known_entries(const std::filesystem::path& corpus, const std::optional<Waiver>& waiver) {
  std::vector<KnownEntry> entries;
  for (const std::filesystem::path& file : corpus_files({corpus}))
    if (Entry entry = read_entry(file); entry.expect == VerdictKind::fail)
      entries.push_back({std::move(entry), file, waiver});
  return entries;
}

std::set<std::string> buckets_of(const std::vector<KnownEntry>& entries) {
  std::set<std::string> buckets;
  for (const KnownEntry& known : entries)
    if (known.tells()) buckets.insert(known.entry.bucket);
  return buckets;
}

// Tells whether the condition of an entry, under which nearly all problems fail by that law, holds of a problem.
bool Known::says(const Entry& entry, const FailureKey& key, const Problem& problem) const {
  if (!entry.explained || !tell_alike(entry.explained->key, key)) return false;
  const auto predicate = predicate_from_text(entry.explained->predicate, entry.problem.op());
  return predicate && sufficient({*predicate, entry.explained->counts, 0, 0}) && predicate->holds(problem, supports_);
}

const KnownEntry* Known::telling(const Entry& at, const Kin& kin) const {
  for (const KnownEntry* known : kin.entries)
    if (without_law(known->entry.bucket) == without_law(at.bucket) ||
        says(known->entry, failure_key_of(at), at.problem))
      return known;
  return nullptr;
}

const KnownEntry* Known::telling_when_asked(const Entry& at, const Kin& kin) {
  if (ends_instance(at.seen)) return nullptr;  // a death is not asked for once more
  std::set<std::string> laws;
  for (const KnownEntry* known : kin.entries) laws.insert(known->entry.property);
  const auto of_call = [&](const Problem& problem) -> const KnownEntry* {
    for (const std::string& law : laws) {
      const std::optional<Entry>& shown = reproduced(problem, law);
      if (!shown) continue;
      if (const KnownEntry* known = telling(*shown, kin)) return known;
      if (kin.beside && tell_alike(failure_key_of(*shown), kin.key) && kin.condition.holds(shown->problem, supports_))
        return kin.beside;
    }
    return nullptr;
  };
  if (const KnownEntry* known = of_call(at.problem)) return known;
  if (!ask_.calls_of || find_law(at.property)->base_call()) return nullptr;
  std::erase_if(laws, [](const std::string& law) { return !find_law(law)->base_call(); });
  for (const Problem& call : ask_.calls_of(at))
    if (const KnownEntry* known = of_call(call)) return known;
  return nullptr;
}

const std::optional<Entry>& Known::reproduced(const Problem& at, const std::string& property) {
  const auto [known, first] = asked_.try_emplace(property + " " + to_text(at));
  if (first && ask_.reproduced) known->second = ask_.reproduced(at, property);
  return known->second;
}

bool Known::still_shows(const Entry& entry) {
  const auto [known, first] = shows_.try_emplace(&entry, true);
  if (first && ask_.still_shows) known->second = ask_.still_shows(entry);
  return known->second;
}

Known::Kin Known::kin_of(const Summary& summary, const Defect& defect,
                         const std::function<bool(const KnownEntry&)>& takes) {
  Kin kin{{}, defect.key, defect.predicate, nullptr};
  for (const KnownEntry& known : entries_)
    if (const Entry& entry = known.entry;
        takes(known) && &entry.problem.op() == summary.op && kind_of(failure_key_of(entry)) == kind_of(defect.key) &&
        entry.subject == summary.findings[defect.findings.front()].entry.subject && still_shows(entry))
      kin.entries.push_back(&known);
  const auto lies_there = [&](const KnownEntry* known) {
    return tell_alike(failure_key_of(known->entry), defect.key) &&
           defect.predicate.holds(known->entry.problem, supports_);
  };
  if (const auto beside = std::ranges::find_if(kin.entries, lies_there);
      beside != kin.entries.end() && separates({defect.predicate, defect.counts, 0, 0}))
    kin.beside = *beside;
  return kin;
}

const KnownEntry* Known::telling_finding(const Kin& kin, const Finding& finding) {
  if (const KnownEntry* known = telling(finding.entry, kin)) return known;
  if (kin.beside && kin.condition.holds(finding.entry.problem, supports_)) return kin.beside;
  return telling_when_asked(finding.entry, kin);
}

void Known::mark(Summary& summary) {
  std::vector<Waiver> waivers;
  for (const KnownEntry& known : entries_)
    if (known.waiver && std::ranges::find(waivers, *known.waiver) == waivers.end()) waivers.push_back(*known.waiver);
  for (Defect& defect : summary.defects) {
    const Kin kin = kin_of(summary, defect, [](const KnownEntry& known) { return known.tells(); });
    for (const std::size_t i : defect.findings) {
      Finding& finding = summary.findings[i];
      const KnownEntry* known = telling_finding(kin, finding);
      finding.known = known != nullptr;
      finding.known_as = known ? known->name() : std::string();
    }
    for (const Waiver& waiver : waivers) {
      const Kin waived = kin_of(summary, defect, [&](const KnownEntry& known) { return known.waiver == waiver; });
      if (std::ranges::any_of(defect.findings,
                              [&](std::size_t i) { return telling_finding(waived, summary.findings[i]) != nullptr; }))
        defect.waivers.push_back(waiver);
    }
    std::ranges::stable_partition(defect.findings, [&](std::size_t i) { return !summary.findings[i].known; });
    defect.known = summary.findings[defect.findings.front()].known;
  }
}

std::vector<KnownDefect> known_defects(const std::vector<KnownEntry>& entries) {
  std::vector<KnownDefect> defects;
  for (const KnownEntry& known : entries) {
    const auto& [entry, file, waiver] = known;
    if (!entry.explained || !known.tells()) continue;
    const auto& [key, text, counts] = *entry.explained;
    const auto predicate = predicate_from_text(text, entry.problem.op());
    if (!predicate || predicate->atoms.empty() || counts.failing < least_explained || counts.failing < counts.asked)
      continue;
    const Law* law = find_law(key.property);
    if (law) defects.push_back({{key, *predicate, law->base_call(), true, 0, 0, false}, entry, file});
  }
  return defects;
}

}  // namespace attest::engine
