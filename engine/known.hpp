#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/avoid.hpp"
#include "engine/corpus.hpp"
#include "engine/summary.hpp"

namespace attest::engine {

// Tells whether the bucket, or that of another law under the same conditions, is one of those: wrong numbers are one
// defect whichever law tells them (cluster.hpp), and errors and deaths are in the same words.
bool is_known(const std::set<std::string>& buckets, std::string_view bucket);

// A failure that a corpus expects, and its file. Where it is waived, it tells findings until the waiver is over.
struct KnownEntry {
  Entry entry;
  std::filesystem::path file;
  std::optional<Waiver> waiver{};

  [[nodiscard]] bool tells() const noexcept { return !waiver || !waiver->over; }
  // Its file's name without the ending, "ort-attention-14".
  [[nodiscard]] std::string name() const { return file.stem().string(); }
};
// Throws Error(usage) on the first damaged file.
std::vector<KnownEntry> known_entries(const std::filesystem::path& corpus,
                                      const std::optional<Waiver>& waiver = std::nullopt);
// The buckets of those that tell findings.
std::set<std::string> buckets_of(const std::vector<KnownEntry>& entries);

// A defect that an earlier campaign explained.
struct KnownDefect {
  AvoidRule rule;
  Entry entry;
  std::filesystem::path file;
};

// The defects behind those entries for which an earlier campaign learned a predicate that no problem contradicted.
std::vector<KnownDefect> known_defects(const std::vector<KnownEntry>& entries);

// Questions to the subject at the end of a campaign. Each may be empty: then nothing is asked.
struct KnownQuestions {
  // Tells whether an entry's failure shows as it did. True where nobody can say.
  std::function<bool(const Entry& entry)> still_shows = {};
  // Gives the entry that a law's failure on a problem is shrunk to, when it is asked once more: nullopt where the law
  // does not fail there, or nobody can say.
  std::function<std::optional<Entry>(const Problem& at, const std::string& property)> reproduced = {};
  // Gives what a law calls small beside an entry's own problem.
  std::function<std::vector<Problem>(const Entry& at)> calls_of = {};
};

// The failures of a campaign that a corpus tells.
class Known {
 public:
  // All must outlive it.
  Known(const std::vector<KnownEntry>& entries, const Supports& supports, KnownQuestions ask = {})
      : entries_(entries), supports_(supports), ask_(std::move(ask)) {}

  // Marks the findings that the corpus tells with the entry that does, and each defect all of whose findings are
  // marked; a defect gets the waivers of the entries that tell one of its findings, those that are over, too. In
  // another defect new findings come first. An entry whose failure does not show any more, as it did, tells nothing.
  // The problem that a failure was shrunk to depends on the time there was for it, so that a finding is told, among
  // failures of one kind, if
  // - an entry has its bucket, but for the law; or
  // - its problem meets the condition of an entry, under which nearly all problems fail alike: by the law of both, or
  //   by laws that both judge the problem's own call; or
  // - it lies, as does an entry that fails alike, where its defect's condition holds: failures are ten times as
  //   frequent there as elsewhere; or
  // - it is asked: the law of an entry fails on its problem too, or on a call that its own law makes of it, and the
  //   entry that this failure is shrunk to is told so.
  void mark(Summary& summary);

 private:
  // The entries that may tell a defect: they have its subject and kind.
  struct Kin {
    std::vector<const KnownEntry*> entries;
    const FailureKey& key;       // the defect's
    const Predicate& condition;  // likewise
    const KnownEntry* beside;    // one that lies where the condition holds, and fails by its law, if it separates
  };
  [[nodiscard]] bool says(const Entry& entry, const FailureKey& key, const Problem& problem) const;
  // The entry that tells a failure; nullptr where none does.
  [[nodiscard]] const KnownEntry* telling(const Entry& at, const Kin& kin) const;
  bool still_shows(const Entry& entry);
  Kin kin_of(const Summary& summary, const Defect& defect, const std::function<bool(const KnownEntry&)>& takes);
  const KnownEntry* telling_finding(const Kin& kin, const Finding& finding);
  [[nodiscard]] const KnownEntry* telling_when_asked(const Entry& at, const Kin& kin);
  const std::optional<Entry>& reproduced(const Problem& at, const std::string& property);

  const std::vector<KnownEntry>& entries_;
  const Supports& supports_;
  const KnownQuestions ask_;
  std::map<const Entry*, bool> shows_;
  std::map<std::string, std::optional<Entry>> asked_;  // by law and problem
};

}  // namespace attest::engine
