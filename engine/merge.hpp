#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace attest::engine {

// The result of a union.
struct Merged {
  std::size_t folders = 0;
  std::size_t entries = 0;            // entries read
  std::size_t written = 0;            // reproducers of the union
  std::size_t renewed = 0;            // those with a digest that was not that of their contents: edited by hand
  std::vector<std::string> left_out;  // files that could not be read, a sentence each
  // Tells whether the shards of campaigns are all there and came equally far, so that the union is the campaign before
  // it was split.
  bool whole = false;
  std::string missing;  // else: why not
  std::string subject;  // campaigns': as the command line named it
};

struct MergeOptions {
  std::filesystem::path out;  // must not be there, or be an empty folder; there is nothing in it until all of it is
  bool minimise = false;  // keeps the smallest reproducer of those that differ in law or class of wrong numbers alone
};

// The union of campaigns of one stream: shards of it, given in any order. It has the rows, counts and failures of all,
// and the smallest reproducer of each bucket. The union of all shards has the cases, verdicts and counts of the same
// campaign under --no-avoid without shards, byte for byte but for times; its reproducers are those of all shards, which
// may be more: each shard shrinks the first failures of a kind that it meets. Throws Error(usage) for folders that hold
// no campaigns of one stream (naming the first difference), one shard twice, a damaged file, or a campaign that is
// running.
Merged merge_campaigns(const std::vector<std::filesystem::path>& folders, const MergeOptions& options);

// The union of corpora: every entry once. One whose digest is not that of its contents is taken for edited by hand, and
// has it renewed. A file that is no entry, or one of a model, is left out and named.
Merged merge_corpora(const std::vector<std::filesystem::path>& folders, const MergeOptions& options);

}  // namespace attest::engine
