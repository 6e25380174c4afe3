#include "engine/known.hpp"

#include <utility>

#include "properties/property.hpp"

namespace attest::engine {

std::vector<KnownDefect> known_defects(const std::filesystem::path& corpus) {
  std::vector<KnownDefect> defects;
  for (const std::filesystem::path& file : corpus_files({corpus})) {
    Entry entry = read_entry(file);
    if (entry.expect != VerdictKind::fail || !entry.explained) continue;
    const auto& [key, text, counts] = *entry.explained;
    const auto predicate = predicate_from_text(text);
    if (!predicate || predicate->atoms.empty() || counts.failing < least_explained || counts.failing < counts.asked)
      continue;
    const properties::Property* law = properties::find_property(key.property);
    if (law) defects.push_back({{key, *predicate, law->base_call(), true, 0, 0, false}, std::move(entry), file});
  }
  return defects;
}

}  // namespace attest::engine
