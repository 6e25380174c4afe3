#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/avoid.hpp"
#include "engine/corpus.hpp"
#include "engine/summary.hpp"

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

// The failures that a corpus expects.
std::vector<Entry> known_entries(const std::filesystem::path& corpus);

// Marks the defects, and their findings, that a corpus tells of already. What a failure was shrunk to depends on the time there was for it; a
// defect is its law and its condition. Among failures of one kind it is known if
// - one of its buckets is; or
// - its condition, under which nearly all problems fail, holds of an entry of the same subject that fails by the same law; or
// - the condition of such an entry, which was as good, holds of all reproducers of the defect: by the same law, or of a law that fails of
//   its problem alone.
void mark_known(Summary& summary, const std::vector<Entry>& entries, const Supports& supports);

}  // namespace attest::engine
