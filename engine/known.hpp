#pragma once
#include <filesystem>
#include <vector>

#include "engine/avoid.hpp"
#include "engine/corpus.hpp"

namespace attest::engine {

// A defect that an earlier campaign explained.
struct KnownDefect {
  AvoidRule rule;
  Entry entry;
  std::filesystem::path file;
};

// Of the entries of a corpus, those that an earlier campaign learned a predicate for that no problem contradicted.
std::vector<KnownDefect> known_defects(const std::filesystem::path& corpus);

}  // namespace attest::engine
