#pragma once
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/bucket.hpp"
#include "engine/cluster_groups.hpp"

namespace attest::engine {

// Tells whether two groups are of one defect by what laws say of their reproducers once more. Each question is asked as
// often as there is room for, and no more.
class AskedRules : public Groups {
 public:
  using Groups::Groups;

  // Tells whether `other` is what `group` is about, by asking laws about reproducers.
  bool belongs(const Siblings& other, const Siblings& group) {
    if (!comparable(other, group)) return false;
    if (std::ranges::all_of(other.members, [&](const Studied& s) { return makes_calls(entry(s)); }))
      return fails_there(other, group) || enters(other, group);
    const Studied &theirs = group.members.front(), &its = other.members.front();
    // A condition that is known to hold of nearly all failures of the group does not hold of this one.
    const Learned& learned = group.speaker.learned;
    if (necessary(learned) && entry(its).minimal && !learned.predicate.holds(its.row)) return false;
    // Nor is it of the group what shows in a form alone that the group does not need.
    if (!study_.forms_needed(its).empty() &&
        (!learned.predicate.holds(its.row) || study_.needs_a_form_beside(learned.predicate, its)))
      return false;
    return few(other, group) && entry(theirs).property != entry(its).property && fails(entry(its), theirs);
  }
  // Tells whether a problem of `one` is refused in other words already for what is set in a problem of `other`: had it
  // not needed that, it would have been shrunk without.
  bool refused_anyway(const Siblings& one, const Siblings& other) {
    return std::ranges::any_of(one.members, [&](const Studied& more) {
      return std::ranges::any_of(other.members, [&](const Studied& less) {
        return holds_all(entry(more), entry(less)) && !passes_with_less(entry(more), entry(less));
      });
    });
  }
  // Tells whether the failure needs calls that follow each other, and is gone if an instance answers one call alone.
  bool is_kept_state(const Siblings& other, const Siblings& group) {
    const auto tells = [&](const Studied& member) { return entry(member).property == "kept-state"; };
    const auto apart = [&](const Studied& member) {
      return makes_calls(entry(member)) && entry(member).seen == VerdictKind::fail && apart_left_-- > 0 &&
             known_.holds_apart(entry(member), entry(member).property);
    };
    return comparable(other, group) && std::ranges::any_of(group.members, tells) &&
           std::ranges::all_of(
               other.members.begin(),
               other.members.begin() + static_cast<std::ptrdiff_t>(std::min(other.members.size(), asked_of_each)),
               apart);
  }
  // Tells whether every kernel that gives the very numbers of the group gives those of `other`.
  bool accounted_for(const Siblings& other, const Siblings& group) {
    if (!comparable(other, group) || entry(other.speaker).seen != VerdictKind::fail) return false;
    const Accounts its = accounts(group);
    return its.problems >= 2 && !its.kernels.empty() && std::ranges::includes(accounts(other).kernels, its.kernels);
  }

 private:
  [[nodiscard]] bool fails(const Entry& at, const Studied& told) {
    if (at.seen != VerdictKind::fail) return false;  // a death is not asked for once more
    const std::optional<FailureKey> shown = probed(at, entry(told).property).shown;
    return shown && kind_of(*shown) == kind_of(told.key);
  }
  // Nothing is asked twice, and nothing more than there is time for.
  const Probed& probed(const Entry& at, const std::string& property) {
    const auto [known, first] = probed_.try_emplace(std::pair(&at, property));
    if (first && asked_left_-- > 0) known->second = known_.probe(at, property);
    return known->second;
  }
  [[nodiscard]] static bool holds_all(const Entry& more, const Entry& less) {
    if (more.seen != VerdictKind::error || less.seen != VerdictKind::error || !more.minimal || !less.minimal)
      return false;
    // The seed of a law's problem decides which form it asks, and no setting tells it.
    if (makes_calls(less) && (less.property != more.property || less.property == "other-form")) return false;
    const Problem &p = more.problem, &q = less.problem;
    if (storage_of(q) != storage_of(p) && storage_of(q) != Format::f32) return false;  // f32 is where shrinking goes
    for (const Field& field : p.op().fields())
      if (!field.origin.empty() && field.get(p) < field.get(q)) return false;
    const std::vector<std::string> has = settings_of(p), needs = settings_of(q);
    return !needs.empty() && std::ranges::all_of(needs, [&](const std::string& setting) {
      return std::ranges::find(has, setting) != has.end();
    });
  }
  // Tells whether some neighbour of `more`, in which all that `less` needs is set as well, is done: then that is
  // refused for something else.
  [[nodiscard]] bool passes_with_less(const Entry& more, const Entry& less) {
    if (!known_.probe) return false;
    const auto [known, first] = passes_with_less_.try_emplace(std::pair(&more, &less), false);
    if (!first) return known->second;
    Entry beside = more;
    for (Candidate& neighbour : tried_neighbours(more, known_.table.supports())) {
      beside.problem = std::move(neighbour.problem);
      // The contract is of one storage type.
      if (storage_of(beside.problem) != storage_of(more.problem) || !holds_all(beside, less)) continue;
      if (beside_left_-- <= 0) break;
      const Probed probed = known_.probe(beside, more.property);
      if (!probed.shown && !probed.calls.empty()) return known->second = true;
    }
    return false;
  }
  // A law that fails for a reason of its own may fail there for that.
  [[nodiscard]] bool fails_there(const Siblings& other, const Siblings& group) {
    if (has_a_reason_of_its_own(other, group)) return false;
    const auto count = static_cast<std::ptrdiff_t>(std::min(group.members.size(), asked_of_each));
    return std::any_of(group.members.begin(), group.members.begin() + count,
                       [&](const Studied& at) { return fails(entry(at), other.members.front()); });
  }
  // Its failures have a condition, and most of them lie where the group's does not hold.
  [[nodiscard]] bool has_a_reason_of_its_own(const Siblings& other, const Siblings& group) const {
    if (!necessary(other.speaker.learned)) return false;
    const Inside failures = problems_within(group.speaker.learned.predicate, buckets_of(other));
    const std::ptrdiff_t outside = failures.of - failures.count;
    return std::cmp_greater_equal(outside, enough_failures) && 2 * outside > failures.of;
  }
  // A call of the law lies where the group's predicate holds, and its problem does not.
  [[nodiscard]] bool enters(const Siblings& other, const Siblings& group) {
    const Studied& told = other.members.front();
    const Learned& learned = group.speaker.learned;
    if (!(sufficient(learned) || necessary(learned)) || learned.predicate.holds(told.row)) return false;
    return std::ranges::any_of(probed(entry(told), entry(told).property).calls, [&](const Problem& call) {
      return learned.predicate.holds(call, known_.table.supports());
    });
  }
  // The accounts common to all of its reproducers that have any: one of an element or two tells little.
  Accounts accounts(const Siblings& group) {
    Accounts common;
    for (const Studied& member : group.members) {
      const std::optional<Accounts>& its = accounts(member);
      if (!its) continue;
      if (common.problems == 0) common.kernels = its->kernels;
      std::erase_if(common.kernels, [&](const std::string& kernel) { return !its->kernels.contains(kernel); });
      common.problems += its->problems;
      if (common.kernels.empty()) break;
    }
    return common;
  }
  const std::optional<Accounts>& accounts(const Studied& member) {
    const auto [known, first] = accounts_.try_emplace(member.finding);
    const Entry& at = entry(member);
    if (first && at.seen == VerdictKind::fail && !at.shown && accounts_left_-- > 0) known->second = known_.accounts(at);
    return known->second;
  }
  [[nodiscard]] bool few(const Siblings& other, const Siblings& group) const {
    const auto failures = [&](const Siblings& of) {
      std::uint64_t sum = 0;
      for (const Studied& member : of.members) sum += findings_[member.finding].failures;
      return sum;
    };
    return failures(other) < enough_failures && failures(group) >= 10 * failures(other);
  }

  static constexpr int most_asked = 144;           // calls of laws on reproducers of others
  static constexpr std::size_t asked_of_each = 3;  // reproducers of a group
  static constexpr int most_beside_asked = 48;     // neighbours
  static constexpr int most_accounts_asked = 64;   // reproducers
  static constexpr int most_asked_apart = 12;      // laws whose every call takes an instance of its own

  std::map<std::size_t, std::optional<Accounts>> accounts_;  // by finding
  std::map<std::pair<const Entry*, std::string>, Probed> probed_;
  std::map<std::pair<const Entry*, const Entry*>, bool> passes_with_less_;
  int beside_left_ = most_beside_asked, asked_left_ = most_asked, apart_left_ = most_asked_apart,
      accounts_left_ = most_accounts_asked;
};

}  // namespace attest::engine
