#include "engine/known.hpp"

#include <algorithm>
#include <utility>

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
