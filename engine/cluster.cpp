#include "engine/cluster.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "engine/cluster_asked.hpp"
#include "engine/cluster_told.hpp"

namespace attest::engine {
namespace {

constexpr int most_pairs_learned = 64;      // pairs of groups from whose joint failures a predicate is learned
constexpr std::size_t most_keys_tried = 4;  // keys under which a group's predicate is learned
constexpr std::size_t most_of_key = 3;      // reproducers that it must hold on, one at a time
constexpr int most_undone_asked = 64;       // reproducers that are asked which call was not done

class Clustering : Groups {
 public:
  Clustering(const std::vector<Finding>& findings, const Evidences& known)
      : Groups(findings, known, learning_),
        learning_(findings, known.table, known.buckets, undone_by(known.probe)),
        told_(findings, known, learning_),
        asked_(findings, known, learning_) {}

  std::vector<Siblings> run() {
    std::vector<Studied> all = learning_.all();
    std::stable_partition(all.begin(), all.end(),
                          [](const Studied& studied) { return studied.own >= enough_failures; });
    for (Studied& studied : all) add(std::move(studied));
    for (Siblings& group : groups_) settle(group);
    // Groups that were brought together tell more than their parts did.
    for (std::size_t before = groups_.size() + 1; groups_.size() < before;) {
      before = groups_.size();
      bring_together();
    }
    for (Siblings& group : groups_)
      if (group.shown) group.speaker = std::move(*group.shown);
    return std::move(groups_);
  }

 private:
  // The undone calls of a law, which are asked of errors alone: a death would end the instance, and others are in a
  // history.
  static UndoneCall undone_by(const Probe& probe) {
    if (!probe) return {};
    return [&probe, left = most_undone_asked](const Entry& at) mutable -> std::optional<Problem> {
      if (at.seen != VerdictKind::error || !at.after.empty() || left-- <= 0) return std::nullopt;
      return probe(at, at.property).undone;
    };
  }
  void bring_together() {
    join([this](const Siblings& a, const Siblings& b) { return told_.one_defect(a.speaker, b.speaker); });
    join([this, left = most_pairs_learned](const Siblings& a, const Siblings& b) mutable {
      return told_.shorter_as_one(a, b, left) || told_.shorter_as_one(b, a, left);
    });
    either_way(&ToldRules::falls_under);
    for (Siblings& group : groups_) tell_of_few(group);
    for (const auto rule : {&ToldRules::needs_the_same, &ToldRules::needs_its_form, &ToldRules::says_no_more,
                            &ToldRules::dies_nearby, &ToldRules::under_one_condition})
      either_way(rule);
    either_way(&AskedRules::refused_anyway);
    if (known_.probe) either_way(&AskedRules::belongs);
    if (known_.holds_apart) either_way(&AskedRules::is_kept_state);
    if (known_.accounts) either_way(&AskedRules::accounted_for);
  }
  void either_way(bool (ToldRules::*rule)(const Siblings&, const Siblings&) const) {
    join([&](const Siblings& a, const Siblings& b) { return (told_.*rule)(a, b) || (told_.*rule)(b, a); });
  }
  void either_way(bool (AskedRules::*rule)(const Siblings&, const Siblings&)) {
    join([&](const Siblings& a, const Siblings& b) { return (asked_.*rule)(a, b) || (asked_.*rule)(b, a); });
  }
  // It may bring groups together that were apart, unless it failed too seldom to say so: then it goes to the first of
  // them.
  void add(Studied studied) {
    Siblings mine;
    for (std::size_t g = 0; g < groups_.size();) {
      const auto& others = groups_[g].members;
      if (!std::ranges::any_of(others, [&](const Studied& other) { return told_.one_defect(studied, other); })) {
        ++g;
      } else if (studied.own < enough_failures) {
        groups_[g].members.push_back(std::move(studied));
        return;
      } else {
        take(mine, g);
      }
    }
    mine.members.push_back(std::move(studied));
    groups_.push_back(std::move(mine));
  }
  void take(Siblings& into, std::size_t from) {
    std::ranges::move(groups_[from].members, std::back_inserter(into.members));
    groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(from));
  }
  template <class Same>
  void join(Same&& same) {
    for (std::size_t a = 0; a < groups_.size(); ++a)
      for (std::size_t b = a + 1; b < groups_.size();)
        if (same(groups_[a], groups_[b])) {
          take(groups_[a], b);
          settle(groups_[a]);
          b = a + 1;
        } else {
          ++b;
        }
  }

  void settle(Siblings& group) const {
    std::ranges::sort(group.members, [&](const Studied& a, const Studied& b) {
      const Entry &first = entry(a), &second = entry(b);
      if (simpler(first, second) != simpler(second, first)) return simpler(first, second);
      return a.finding < b.finding;
    });
    const std::set<std::string> buckets = buckets_of(group);
    std::vector<const Studied*> weightiest;
    for (const Studied& member : group.members) weightiest.push_back(&member);
    std::ranges::stable_sort(weightiest, [](const Studied* a, const Studied* b) {
      return std::pair(weight_of(a->key), a->failing.size()) > std::pair(weight_of(b->key), b->failing.size());
    });
    std::vector<const Studied*> anchors;
    for (const Studied& member : group.members)
      if (shows_it(member)) anchors.push_back(&member);
    std::map<std::string, std::size_t> keys;
    std::optional<Studied> best;
    bool best_fits = false;  // it says something, and most members need no form beside
    for (const Studied* member : weightiest) {
      const std::string key = to_text(member->key);
      if ((keys.size() >= most_keys_tried && !keys.contains(key)) || keys[key]++ >= most_of_key) continue;
      Studied tried = *member;
      study_.learn_from(tried, buckets, anchors);
      const Predicate& says = tried.learned.predicate;
      const auto beside = std::ranges::count_if(
          group.members, [&](const Studied& one) { return study_.needs_a_form_beside(says, one); });
      const bool fits = !says.atoms.empty() && 2 * beside <= std::ssize(group.members);
      if (best && std::pair(fits, tried.learned.bits) <= std::pair(best_fits, best->learned.bits)) continue;
      best = std::move(tried);
      best_fits = fits;
    }
    group.speaker = std::move(*best);
    group.shown.reset();
  }
  // True if the defect shows on the problem of a minimal reproducer itself, and not on one that its law makes of it:
  // the group's predicate holds there, or there is none.
  [[nodiscard]] bool shows_it(const Studied& member) const {
    return entry(member).minimal && (member.of_calls || !makes_calls(entry(member)));
  }

  // Learns from a minimal reproducer where the failures are too few to tell, or tell wrongly.
  void tell_of_few(Siblings& group) const {
    const Predicate& learned = group.speaker.learned.predicate;
    const auto refutes = [&](const Studied& member) { return study_.is_refuted(learned, member); };
    if (group.shown || (!learned.atoms.empty() && std::ranges::none_of(group.members, refutes))) return;
    const std::set<std::string> buckets = buckets_of(group);
    if (study_.own_failures(group.speaker, buckets) >= enough_failures) return;
    for (const bool of_calls : {false, true})  // the needs of a law's own calls are told where nothing else is
      for (const Studied& member : group.members) {
        Studied tried = member;
        if (makes_calls(entry(member)) != of_calls || !study_.learn_from_neighbours(tried, buckets)) continue;
        group.shown = std::move(tried);
        return;
      }
  }

  Study learning_;
  ToldRules told_;
  AskedRules asked_;
  std::vector<Siblings> groups_;
};

}  // namespace

std::vector<Defect> cluster(const std::vector<Finding>& findings, const Evidences& known) {
  std::vector<Defect> defects;
  for (Siblings& group : Clustering(findings, known).run()) {
    Defect defect;
    defect.known = true;
    // A reproducer that came along by what a law says elsewhere shows the defect less plainly.
    const Predicate& learned = group.speaker.learned.predicate;
    std::stable_partition(group.members.begin(), group.members.end(),
                          [&](const Studied& member) { return learned.holds(member.row); });
    for (const Studied& member : group.members) {
      defect.findings.push_back(member.finding);
      defect.failures += findings[member.finding].failures;
      defect.known = defect.known && findings[member.finding].known;
    }
    defect.key = group.speaker.key;
    defect.predicate = std::move(group.speaker.learned.predicate);
    defect.counts = group.speaker.learned.counts;
    defects.push_back(std::move(defect));
  }
  std::ranges::sort(defects, {}, [&](const Defect& defect) {
    std::uint64_t first = UINT64_MAX;
    for (const std::size_t i : defect.findings) first = std::min(first, findings[i].case_number);
    return first;
  });
  return defects;
}

}  // namespace attest::engine
