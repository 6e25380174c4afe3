#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/subject.hpp"
#include "engine/check.hpp"
#include "engine/corpus.hpp"

namespace attest::engine {

enum class Replayed : std::uint8_t { as_expected, unexpected, mended, not_here, damaged, unsupported, not_run };
std::string_view name(Replayed outcome) noexcept;

struct ReplayResult {
  std::filesystem::path file;
  Replayed outcome = Replayed::not_run;
  std::string sentence;            // the result in one sentence
  std::optional<Entry> entry;      // unless damaged
  std::optional<Verdict> verdict;  // on its property, if it ran
  std::string bucket;              // the bucket of the failure that showed, if one did
};

struct ReplayReport {
  // not_here: an expected failure that passes, on a processor without some of the instructions of that which showed it.
  std::int64_t entries = 0, as_expected = 0, unexpected = 0, mended = 0, not_here = 0, damaged = 0, unsupported = 0,
               not_run = 0;
  // 1 before 2 before 4. No entry at all is 2. Entries that the subject does not take, or that say nothing here, count
  // for nothing; where there are no others that is 4, as is an entry that was not run, unless `allow_missing`.
  [[nodiscard]] Exit exit(bool allow_missing) const noexcept;
};

// The laws that must run for an entry to show, ascending; the calls that a fresh instance must be asked before.
std::vector<std::size_t> laws_of(const Entry& entry);
std::vector<Asked> calls_before(const Entry& entry);

// Starts the subject an entry names (or the one the command line put in its place); nullptr: numbers that were saved are
// judged as they stand. Throws Error(no_subject or usage).
using Resolve = std::function<std::unique_ptr<SubjectFactory>(const Entry&)>;

// Runs every entry under `paths` through check(), the function campaigns use, and hands each result to `told` in order.
// Subjects are kept from entry to entry. `expect_pass`: every entry must pass, whatever it says it expects.
// `resolve_b` starts the second subject of an entry of two.
// Throws Error(usage) for a path that does not exist.
ReplayReport replay(const std::vector<std::filesystem::path>& paths, const Resolve& resolve, const SubjectFactory* peer,
                    const std::function<void(const ReplayResult&)>& told, bool expect_pass = false,
                    const Resolve& resolve_b = {});

}  // namespace attest::engine
