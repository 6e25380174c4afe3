#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/contract.hpp"
#include "core/problem.hpp"
#include "core/verdict.hpp"
#include "engine/key.hpp"
#include "engine/learn.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

inline constexpr int corpus_format = 1;

// The place where a defect showed, as a campaign learned it.
struct Explained {
  FailureKey key;         // key of the failures that were counted
  std::string predicate;  // predicate_from_text() reads it
  Separation counts;
};

// A call to make before that of an entry, on the same instance; with laws, all the calls that these make of it.
struct EarlierCall {
  Problem problem;
  std::vector<std::string> laws;
};

// The rate of a failure that does not always show.
struct Rate {
  int seen = 0, runs = 0;
};

// The second subject of a comparison, said as that of an entry is.
struct SecondSubject {
  std::string subject, version;
  std::filesystem::path file;
  std::string name;
  Contract contract;
};

// A reproducer kept as data: everything replay needs, and what a reader wants to know.
struct Entry {
  // Portable: builtin:, fault:, a shipped adapter, external:NAME, or saved:FILE of a run elsewhere.
  std::string subject;
  std::string subject_version;
  // The absolute path of the script, plug-in or program that holds an external subject, and the subject's name there.
  // In a file of ours the path is relative to that file's folder; it says what to look for, and starts nothing by
  // itself. Empty where it is not known.
  std::filesystem::path subject_file;
  std::string subject_name;
  std::optional<SecondSubject> subject_b;  // present for a law of two subjects
  Problem problem;
  Contract contract;
  bool policy_given = false;  // the policy came from --policy: replay asks the subject for it
  bool as_probed = false;  // the contract is one that probes showed: replay holds the subject to it, and asks no probe
  std::string property;
  std::string refiled{};  // the law that it was stored under, which is gone: ensemble-error is asked in its place
  std::vector<std::string> with;           // further properties that must run beside it for the failure to show
  std::vector<EarlierCall> after;          // the checks that a fresh instance must be asked first; mostly none
  VerdictKind expect = VerdictKind::fail;  // pass, or fail
  std::string bucket;                      // the bucket of an expected failure
  std::string reference;                   // public report and version behind a known defect; may be empty
  std::string processor;                   // on which it was seen (processor.hpp); empty: it shows on any
  std::optional<Rate> shown;               // absent where every run shows it
  // The observation when the entry was written.
  VerdictKind seen = VerdictKind::fail;
  std::string reason;
  std::optional<Evidence> evidence;
  // The entry's origin.
  std::string original;  // text of the problem before shrinking
  std::optional<std::uint64_t> seed, case_number;
  std::string attest_version;
  std::int64_t shrink_calls = 0;
  bool minimal = false;  // 1-minimal: every neighbour below was tried
  std::vector<std::string> neighbours;
  std::optional<Explained> explained;
};

// Tells whether it is of numbers that a run elsewhere saved: judge stored it, and its witness is all that there is.
bool is_saved(const Entry& entry) noexcept;

// The failure key that an entry was shrunk on.
FailureKey failure_key_of(const Entry& entry);

// The captured activations of an entry lie beside it: a path is nobody else's business, and is never taken from a file.
Problem portable_problem(Problem problem);

// The entry as it stands in a file of `folder`: the path of its subject relative to that folder, or the name alone
// where the two have nothing but the root in common; captured activations by name.
Entry portable_entry(Entry entry, const std::filesystem::path& folder);

nlohmann::ordered_json to_json(const Explained& explained);
nlohmann::ordered_json to_json(const Entry& entry);
nlohmann::ordered_json to_json(const std::vector<EarlierCall>& calls);

// The text of a corpus file: the entry, portable, as JSON and, as its last member, a digest of every byte before it.
std::string to_file_text(const Entry& entry);
// Reads it back. Throws Error(usage): one sentence with `name`, the line and the reason, for text that is truncated,
// altered, of a later format version, hostile in size or depth, contradictory, or that names a path as its subject.
Entry entry_from_file_text(std::string_view text, const std::string& name);

// The text with the digest that its contents have, where it ends with one; else as it is.
std::string with_renewed_digest(std::string_view text);

Entry read_entry(const std::filesystem::path& file);
// Writes `<folder>/<subject>/<bucket>-<hash>.json`, whole or not at all, and returns its path. Captured activations
// become literal edits where they are few, else their file is copied beside the entry. Throws Error(usage) if it cannot
// be written.
std::filesystem::path write_entry(const Entry& entry, const std::filesystem::path& folder);
// The path write_entry uses, relative to the corpus folder.
std::filesystem::path entry_path(const Entry& entry);

// Every *.json under the paths (files or folders), sorted. Throws Error(usage) for a path that does not exist.
std::vector<std::filesystem::path> corpus_files(const std::vector<std::filesystem::path>& paths);

}  // namespace attest::engine
