#pragma once
#include <exception>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/campaign/state.hpp"
#include "engine/known.hpp"
#include "engine/shrinker.hpp"

namespace attest::engine {

// The reproducers of a campaign: among the findings of its summary, in its folder and in the corpus. For the thread
// that counts.
class Reproducers {
 public:
  // `state` must outlive it.
  explicit Reproducers(CampaignState& state);

  // The rules of defects that earlier campaigns explained.
  [[nodiscard]] std::vector<AvoidRule> known_rules() const;
  // Marks findings that an earlier run of the campaign left.
  void mark_known();

  // A reproducer takes its place among the findings; `whole` if nothing is left to be shrunk of it.
  void merge(ShrinkResult result, bool whole);
  // One more failure that a rule of a known defect explains.
  void count_known(const AvoidRule& rule);
  // The reproducer that stands for a defect says where it shows, so that a later campaign knows it again.
  void note_predicate(const Defect& defect);

  // Writes what keeps a finding or the counts. A disk that is full ends the campaign, and what it found is told all the
  // same.
  void keep(const std::function<void()>& write);
  [[nodiscard]] bool is_unwritten() const { return unwritten_ != nullptr; }
  // Throws the error that keep() met.
  void require_written() const;

 private:
  void replace_as_seen(const Finding& shrunk);
  void add(Finding finding);
  void store(Finding& finding);

  CampaignState& state_;
  const std::vector<KnownDefect> known_defects_;
  const std::set<std::string> known_buckets_;
  std::exception_ptr unwritten_;
};

}  // namespace attest::engine
