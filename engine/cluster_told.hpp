#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/cluster_groups.hpp"

namespace attest::engine {

// Tells whether two groups are of one defect by what the campaign's problems and the reproducers' neighbours say.
class ToldRules : public Groups {
 public:
  using Groups::Groups;

  [[nodiscard]] bool one_defect(const Studied& a, const Studied& b) const {
    if (entry(a).seen == VerdictKind::flaky || entry(b).seen == VerdictKind::flaky)
      return entry(a).seen == entry(b).seen;
    if (kind_of(a.key) != kind_of(b.key)) return false;
    if (conditions(entry(a).bucket) == conditions(entry(b).bucket)) return true;
    const auto claims = [this](const Studied& one, const Studied& other) {
      const bool enough = sufficient(one.learned);
      return one.own >= enough_failures && (enough || (necessary(one.learned) && !sufficient(other.learned))) &&
             one.learned.predicate.holds(other.row) && !study_.needs_a_form_beside(one.learned.predicate, other) &&
             (enough || lie_within(one.learned.predicate, {entry(other).bucket}));
    };
    if (claims(a, b) || claims(b, a)) return true;
    const bool one_law =
        in_one_way(a.key, b.key) || a.shows.contains(to_text(b.key)) || b.shows.contains(to_text(a.key));
    return one_law && alike(a, b);
  }
  // Tells whether most failures that are known to be of these buckets do, or they are too few to say.
  [[nodiscard]] bool lie_within(const Predicate& predicate, const std::set<std::string>& buckets) const {
    const Inside failures = problems_within(predicate, buckets);
    return std::cmp_less(failures.of, enough_failures) || 4 * failures.count >= 3 * failures.of;
  }
  // Tells whether one predicate tells of the failures of both, by the law that speaks for `a`, in fewer bits than one
  // for each. Unchanged groups are not learned from again; `left` is the number of others that still may be.
  bool shorter_as_one(const Siblings& a, const Siblings& b, int& left) {
    if (!comparable(a, b)) return false;
    std::vector<std::size_t> both;
    for (const Siblings* one : {&a, &b}) {
      for (const Studied& member : one->members) both.push_back(member.finding);
      both.push_back(SIZE_MAX);
    }
    const auto known = shorter_.find(both);
    if (known != shorter_.end()) return known->second;
    if (left-- <= 0) return false;
    return shorter_[std::move(both)] = are_shorter_as_one(a, b);
  }
  // Tells whether `few` are too few failures to tell a defect of their own, and lie all where the group's predicate
  // holds: so rare a place that they would not by chance. A minimal reproducer is one witness more, since it keeps
  // nothing that its failure does not need, and one that lies elsewhere refutes it.
  [[nodiscard]] bool falls_under(const Siblings& few, const Siblings& group) const {
    const Predicate& predicate = group.speaker.learned.predicate;
    const Separation& counts = group.speaker.learned.counts;
    const std::vector<const Row*>& all = few.speaker.failing;
    if (!comparable(few, group) || predicate.atoms.empty() || all.size() >= enough_failures) return false;
    const auto minimal = [&](const Studied& member) { return entry(member).minimal; };
    const auto inside = [&](const Studied& member) { return predicate.holds(member.row); };
    if (std::ranges::any_of(few.members, [&](const Studied& m) { return minimal(m) && !inside(m); })) return false;
    const bool needed = std::ranges::all_of(few.members, minimal);
    const bool by_its_law = !study_.failing(group.speaker, buckets_of(few)).empty();
    if (!by_its_law && !needed) return false;
    const bool in_a_form = std::ranges::any_of(
        few.members, [&](const Studied& member) { return study_.needs_a_form_beside(predicate, member); });
    const double share = static_cast<double>(counts.asked) / static_cast<double>(counts.asked + counts.elsewhere);
    return std::pow(share, static_cast<double>(all.size() + (needed ? 1 : 0))) <=
               (by_its_law && !in_a_form ? most_chance : by_another_law) &&
           std::ranges::all_of(all, [&](const Row* row) { return predicate.holds(*row); });
  }
  // Tells whether `few` are too few failures to learn from, and what is known of the group is what each of their
  // minimal reproducers needs: it holds of them, and of none of their neighbours that pass.
  [[nodiscard]] bool needs_the_same(const Siblings& few, const Siblings& group) const {
    const Studied& told = group.shown ? *group.shown : group.speaker;
    if (!comparable(few, group) || told.learned.predicate.atoms.empty()) return false;
    if (study_.own_failures(few.speaker, buckets_of(few)) >= enough_failures) return false;
    const Law* law = find_law(told.key.property);
    const bool its_law = law && law->base_call();
    return std::ranges::all_of(few.members, [&](const Studied& member) {
      return (its_law || in_one_way(told.key, member.key)) && study_.is_need(told.learned.predicate, member);
    });
  }
  // Tells whether `few` are too few failures to learn from, and pass without the forms that the group passes without.
  [[nodiscard]] bool needs_its_form(const Siblings& few, const Siblings& group) const {
    if (!comparable(few, group)) return false;
    const std::set<std::string> its = forms_needed(few), theirs = forms_needed(group);
    return !theirs.empty() && std::ranges::includes(its, theirs) &&
           study_.own_failures(few.speaker, buckets_of(few)) < enough_failures;
  }
  // Tells whether `few` are too few failures to learn anything from, told in the very words of the group's.
  [[nodiscard]] bool says_no_more(const Siblings& few, const Siblings& group) const {
    const Studied& speaker = few.speaker;
    return comparable(few, group) && entry(speaker).seen == VerdictKind::error &&
           speaker.failing.size() < enough_failures && speaker.learned.predicate.atoms.empty();
  }
  // Tells whether `few` are too few deaths to learn anything from, beside deaths, or answers that differ from call to
  // call, beside deaths or wrong numbers, and what is left of the group's condition, each part weakened as little as it
  // takes, holds of all of them and of what they were shrunk to: so rare a place that it would not by chance. Memory
  // that is read past its end, or before it is written, kills in most of the problems that reach far, now and then in
  // others, and gives what lies there in yet others.
  [[nodiscard]] bool dies_nearby(const Siblings& few, const Siblings& group) const {
    const Studied& speaker = few.speaker;
    const bool differs = entry(speaker).seen == VerdictKind::flaky;
    const VerdictKind theirs = entry(group.speaker).seen;
    if (!(theirs == VerdictKind::crash || (differs && theirs == VerdictKind::fail)) ||
        group.speaker.failing.size() < enough_failures || !speaker.learned.predicate.atoms.empty())
      return false;
    const std::vector<const Row*> all = differs ? study_.problems_of(buckets_of(few)) : speaker.failing;
    if (!differs && (!comparable(few, group) || all.empty() || all.size() >= enough_failures ||
                     !std::ranges::all_of(few.members, [&](const Studied& member) { return entry(member).minimal; })))
      return false;
    std::vector<const Row*> places = all;
    for (const Studied& member : few.members)
      if (entry(member).minimal || all.empty()) places.push_back(&member.row);
    const Predicate left = weakened(group.speaker.learned.predicate, places);
    const std::size_t witnesses = all.size() + (differs ? 0 : 1);
    return !left.atoms.empty() && std::pow(share_of(left), static_cast<double>(witnesses)) <= most_chance;
  }
  // Tells whether both say the same words and need one thing alike, beside what each needs.
  [[nodiscard]] bool under_one_condition(const Siblings& a, const Siblings& b) const {
    return comparable(a, b) && entry(a.speaker).seen == VerdictKind::error &&
           std::ranges::any_of(a.speaker.learned.predicate.atoms, [&](const Atom& atom) {
             return std::ranges::find(b.speaker.learned.predicate.atoms, atom) !=
                    b.speaker.learned.predicate.atoms.end();
           });
  }

 private:
  [[nodiscard]] bool are_shorter_as_one(const Siblings& a, const Siblings& b) const {
    Studied other = b.speaker;
    other.key = a.speaker.key;
    other.of_calls = a.speaker.of_calls;
    const std::set<std::string> its = buckets_of(b);
    study_.learn_from(other, its);
    if (other.failing.empty()) return false;
    std::set<std::string> buckets = buckets_of(a);
    buckets.insert(its.begin(), its.end());
    Studied both = a.speaker;
    study_.learn_from(both, buckets, {&other});
    const Predicate& common = both.learned.predicate;
    if (both.failing.size() < enough_failures || common.atoms.empty()) return false;
    if (!lie_within(common, its)) return false;  // by its own law
    for (const Siblings* one : {&a, &b})
      if (std::ranges::any_of(one->members, [&](const Studied& m) { return study_.needs_a_form_beside(common, m); }))
        return false;
    return study_.bits_given(both, {&common}) <
           study_.bits_given(both, {&a.speaker.learned.predicate, &other.learned.predicate});
  }
  // The forms that all of its minimal reproducers need.
  [[nodiscard]] std::set<std::string> forms_needed(const Siblings& group) const {
    std::optional<std::set<std::string>> common;
    for (const Studied& member : group.members) {
      if (!entry(member).minimal) continue;
      const std::set<std::string>& its = study_.forms_needed(member);
      if (!common) common = its;
      std::erase_if(*common, [&](const std::string& form) { return !its.contains(form); });
    }
    return common.value_or(std::set<std::string>());
  }
  // The part of a predicate that holds of all of these rows: an atom that does not hold of one is left out, or weakened
  // to say that the label is no plain one.
  [[nodiscard]] static Predicate weakened(const Predicate& predicate, const std::vector<const Row*>& rows) {
    Predicate left;
    for (const Atom& atom : predicate.atoms) {
      const Trait& trait = traits()[atom.trait];
      const bool label = trait.kind == Trait::Kind::label && atom.op != Atom::Op::ne && !atom.holds(trait.plain);
      const Atom weaker{atom.trait, Atom::Op::ne, trait.plain};
      for (const Atom& one : {atom, label ? weaker : atom})
        if (std::ranges::all_of(rows, [&](const Row* row) { return one.holds(*row); })) {
          left.atoms.push_back(one);
          break;
        }
    }
    return left;
  }
  // The share of the campaign's problems.
  [[nodiscard]] double share_of(const Predicate& predicate) const {
    const std::vector<CaseRow>& rows = known_.table.rows();
    const auto inside =
        std::ranges::count_if(rows, [&](const CaseRow& row) { return predicate.holds(row.traits.row()); });
    return static_cast<double>(inside) / static_cast<double>(rows.size());
  }

  // A bucket but for the law and the class of the wrong value.
  static std::string conditions(const std::string& bucket) {
    const std::size_t at = bucket.find(':');
    return at == std::string::npos ? bucket : bucket.substr(at);
  }

  std::map<std::vector<std::size_t>, bool> shorter_;  // by the findings of one group and another

  static constexpr double most_chance = 0.05;  // chance that a few failures lie where they do
  // The same where the group's own law does not fail on them, or they pass in another form.
  static constexpr double by_another_law = 0.01;
};

}  // namespace attest::engine
