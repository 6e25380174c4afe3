#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/avoid.hpp"
#include "engine/corpus.hpp"

namespace attest::engine {

// Whether the bucket, or that of another law under the same conditions, is one of those: wrong numbers are one defect whichever
// law tells them (cluster.hpp), and errors and deaths are in the same words.
bool is_known(const std::set<std::string>& buckets, std::string_view bucket);

// A defect that an earlier campaign explained.
struct KnownDefect {
  AvoidRule rule;
  Entry entry;
  std::filesystem::path file;
};

// Of the entries of a corpus, those that an earlier campaign learned a predicate for that no problem contradicted.
std::vector<KnownDefect> known_defects(const std::filesystem::path& corpus);

}  // namespace attest::engine
