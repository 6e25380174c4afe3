#include "engine/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "engine/bucket.hpp"
#include "engine/failure.hpp"
#include "engine/study.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

constexpr int most_asked = 144;             // of laws on reproducers of others
constexpr int most_pairs_learned = 64;      // of groups, of whose failures together a predicate is learned
constexpr std::size_t asked_of_each = 3;    // reproducers of a group
constexpr double most_chance = 0.05;        // that a few failures lie where they do
constexpr double by_another_law = 0.01;     // the same where the law that the group is told by does not fail on them
constexpr std::size_t most_keys_tried = 4;  // under which a group's predicate is learned
constexpr std::size_t most_of_key = 3;      // reproducers that it is to hold of, one at a time
constexpr int most_undone_asked = 64;       // reproducers, which call was not done
constexpr int most_accounts_asked = 64;     // reproducers
constexpr int most_asked_apart = 12;        // laws whose every call takes an instance of its own

// Findings of one defect, the simplest first, and one of them that speaks for all: learned from the failures of all.
struct Siblings {
  std::vector<Studied> members;
  Studied speaker;
  std::optional<Studied>
      shown{};  // what too few failures do not tell, and a minimal reproducer does: in the speaker's place
};

// A bucket but for the law and the class of the wrong value.
std::string conditions(const std::string& bucket) {
  const std::size_t at = bucket.find(':');
  return at == std::string::npos ? bucket : bucket.substr(at);
}

bool makes_calls(const Entry& entry) {
  const Law* law = find_law(entry.property);
  return law && !law->base_call() && entry.seen != VerdictKind::flaky;
}

// Drift is told from a whole campaign, and its problem is but the worst.
bool of_one_case(const Entry& entry) { return find_law(entry.property) != nullptr; }

class Clustering {
 public:
  Clustering(const std::vector<Finding>& findings, const Evidences& known)
      : findings_(findings), known_(known), study_(findings, known.table, known.buckets, undone_by(known.probe)) {}

  std::vector<Siblings> run() {
    std::vector<Studied> all = study_.all();
    std::stable_partition(all.begin(), all.end(), [this](const Studied& studied) { return is_frequent(studied); });
    for (Studied& studied : all) add(std::move(studied));
    for (Siblings& group : groups_) settle(group);
    // What was brought together tells more than its parts did.
    for (std::size_t before = groups_.size() + 1; groups_.size() < before;) {
      before = groups_.size();
      bring_together();
    }
    for (Siblings& group : groups_)
      if (group.shown) group.speaker = std::move(*group.shown);
    return std::move(groups_);
  }

 private:
  // What a law's own calls come to is asked of errors alone: a death would end the instance, and others are in a history.
  static UndoneCall undone_by(const Probe& probe) {
    if (!probe) return {};
    return [&probe, left = most_undone_asked](const Entry& at) mutable -> std::optional<Problem> {
      if (at.seen != VerdictKind::error || !at.after.empty() || left-- <= 0) return std::nullopt;
      return probe(at, at.property).undone;
    };
  }
  void bring_together() {
    join([this](const Siblings& a, const Siblings& b) { return one_defect(a.speaker, b.speaker); });
    join([this, left = most_pairs_learned](const Siblings& a, const Siblings& b) mutable {
      return shorter_as_one(a, b, left) || shorter_as_one(b, a, left);
    });
    join([this](const Siblings& a, const Siblings& b) { return falls_under(a, b) || falls_under(b, a); });
    for (Siblings& group : groups_) tell_of_few(group);
    join([this](const Siblings& a, const Siblings& b) { return needs_the_same(a, b) || needs_the_same(b, a); });
    join([this](const Siblings& a, const Siblings& b) { return needs_its_form(a, b) || needs_its_form(b, a); });
    join([this](const Siblings& a, const Siblings& b) { return says_no_more(a, b) || says_no_more(b, a); });
    join([this](const Siblings& a, const Siblings& b) { return dies_nearby(a, b) || dies_nearby(b, a); });
    join([this](const Siblings& a, const Siblings& b) { return under_one_condition(a, b); });
    join([this](const Siblings& a, const Siblings& b) { return refused_anyway(a, b) || refused_anyway(b, a); });
    if (known_.probe) join([this](const Siblings& a, const Siblings& b) { return belongs(a, b) || belongs(b, a); });
    if (known_.holds_apart)
      join([this](const Siblings& a, const Siblings& b) { return is_kept_state(a, b) || is_kept_state(b, a); });
    join([this](const Siblings& a, const Siblings& b) { return drifts_there(a, b) || drifts_there(b, a); });
    if (known_.accounts)
      join([this](const Siblings& a, const Siblings& b) { return accounted_for(a, b) || accounted_for(b, a); });
  }
  [[nodiscard]] const Entry& entry(const Studied& studied) const { return findings_[studied.finding].entry; }

  [[nodiscard]] bool one_defect(const Studied& a, const Studied& b) const {
    if (!of_one_case(entry(a)) || !of_one_case(entry(b))) return false;
    if (entry(a).seen == VerdictKind::flaky || entry(b).seen == VerdictKind::flaky)
      return entry(a).seen == entry(b).seen;
    if (kind_of(a.key) != kind_of(b.key)) return false;
    if (conditions(entry(a).bucket) == conditions(entry(b).bucket)) return true;
    const auto claims = [this](const Studied& one, const Studied& other) {
      return is_frequent(one) && (sufficient(one.learned) || (necessary(one.learned) && !sufficient(other.learned))) &&
             one.learned.predicate.holds(other.row) && !study_.needs_a_form_beside(one.learned.predicate, other);
    };
    if (claims(a, b) || claims(b, a)) return true;
    const bool one_law =
        in_one_way(a.key, b.key) || a.shows.contains(to_text(b.key)) || b.shows.contains(to_text(a.key));
    return one_law && alike(a, b);
  }

  // Whether a predicate could tell of both: each is of single cases, answers alike from call to call, and fails one way.
  [[nodiscard]] bool comparable(const Siblings& a, const Siblings& b) const {
    for (const Siblings* one : {&a, &b})
      if (!of_one_case(entry(one->speaker)) || entry(one->speaker).seen == VerdictKind::flaky) return false;
    return kind_of(a.speaker.key) == kind_of(b.speaker.key);
  }

  // Whether one predicate tells of the failures of both, by the law that speaks for `a`, in fewer bits than one for each.
  bool shorter_as_one(const Siblings& a, const Siblings& b, int& left) const {
    if (!comparable(a, b) || left <= 0) return false;
    --left;
    Studied other = b.speaker;
    other.key = a.speaker.key;
    other.of_calls = a.speaker.of_calls;
    const std::set<std::string> its = buckets_of(b);
    study_.learn_from(other, its);
    if (other.failing.empty()) return false;
    std::set<std::string> buckets = buckets_of(a);
    buckets.insert(its.begin(), its.end());
    Studied both = a.speaker;
    study_.learn_from(both, buckets, &other);
    const Predicate& common = both.learned.predicate;
    if (both.failing.size() < enough_failures || common.atoms.empty()) return false;
    for (const Siblings* one : {&a, &b})
      if (std::ranges::any_of(one->members, [&](const Studied& m) { return study_.needs_a_form_beside(common, m); }))
        return false;
    return study_.bits_given(both, {&common}) <
           study_.bits_given(both, {&a.speaker.learned.predicate, &other.learned.predicate});
  }

  // Whether `few` are too few failures to tell a defect of their own, and lie all where the group's predicate holds: so rare a
  // place that they would not by chance. A minimal reproducer is one witness more, since it keeps nothing that its failure does
  // not need, and one that lies elsewhere refutes it.
  [[nodiscard]] bool falls_under(const Siblings& few, const Siblings& group) const {
    const Predicate& predicate = group.speaker.learned.predicate;
    const Separation& counts = group.speaker.learned.counts;
    const std::vector<const Row*>& all = few.speaker.failing;
    if (!comparable(few, group) || predicate.atoms.empty() || all.size() >= enough_failures) return false;
    const auto minimal = [&](const Studied& member) { return entry(member).minimal; };
    const auto inside = [&](const Studied& member) {
      return predicate.holds(member.row) && !study_.needs_a_form_beside(predicate, member);
    };
    if (std::ranges::any_of(few.members, [&](const Studied& m) { return minimal(m) && !inside(m); })) return false;
    const bool needed = std::ranges::all_of(few.members, minimal);
    const bool by_its_law = !study_.failing(group.speaker, buckets_of(few)).empty();
    if (!by_its_law && !needed) return false;
    const double share = static_cast<double>(counts.asked) / static_cast<double>(counts.asked + counts.elsewhere);
    return std::pow(share, static_cast<double>(all.size() + (needed ? 1 : 0))) <=
               (by_its_law ? most_chance : by_another_law) &&
           std::ranges::all_of(all, [&](const Row* row) { return predicate.holds(*row); });
  }
  // Whether `few` are too few failures to learn from, and what is known of the group is what each of their minimal reproducers
  // needs: it holds of them, and of none of their neighbours that pass.
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
  // Whether `few` are too few failures to learn from, and pass without the forms that the group passes without.
  [[nodiscard]] bool needs_its_form(const Siblings& few, const Siblings& group) const {
    if (!comparable(few, group) || study_.own_failures(few.speaker, buckets_of(few)) >= enough_failures) return false;
    const std::set<std::string> its = forms_needed(few), theirs = forms_needed(group);
    return !theirs.empty() && std::ranges::includes(its, theirs);
  }
  // By all of its minimal reproducers.
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
  // Whether `few` are too few failures to learn anything from, told in the very words of the group's.
  [[nodiscard]] bool says_no_more(const Siblings& few, const Siblings& group) const {
    const Studied& speaker = few.speaker;
    return comparable(few, group) && entry(speaker).seen == VerdictKind::error &&
           speaker.failing.size() < enough_failures && speaker.learned.predicate.atoms.empty();
  }
  // Whether `few` are too few deaths to learn anything from, or answers that differ from call to call, and what is left of the group's
  // condition of its deaths, each part weakened as little as it takes, holds of all of them and of what they were shrunk to: so rare
  // a place that it would not by chance. Memory that is read past its end kills in most of the problems that reach far, now and then
  // in others, and gives what lies there in yet others.
  [[nodiscard]] bool dies_nearby(const Siblings& few, const Siblings& group) const {
    const Studied& speaker = few.speaker;
    const bool differs = entry(speaker).seen == VerdictKind::flaky;
    if (!of_one_case(entry(speaker)) || entry(group.speaker).seen != VerdictKind::crash ||
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
  // What is left of a predicate where all of these lie: a part that does not hold of one is left out, or is that the label is no plain one.
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
  // Of the problems of the campaign.
  [[nodiscard]] double share_of(const Predicate& predicate) const {
    const std::vector<CaseRow>& rows = known_.table.rows();
    const auto inside =
        std::ranges::count_if(rows, [&](const CaseRow& row) { return predicate.holds(row.traits.row()); });
    return static_cast<double>(inside) / static_cast<double>(rows.size());
  }
  // Whether both say the same words and need one thing alike, beside what each needs.
  [[nodiscard]] bool under_one_condition(const Siblings& a, const Siblings& b) const {
    return comparable(a, b) && entry(a.speaker).seen == VerdictKind::error &&
           std::ranges::any_of(a.speaker.learned.predicate.atoms, [&](const Atom& atom) {
             return std::ranges::find(b.speaker.learned.predicate.atoms, atom) !=
                    b.speaker.learned.predicate.atoms.end();
           });
  }
  // Whether a problem of `one` is refused in other words already for what is set in a problem of `other`: had it not needed
  // that, it would have been shrunk without.
  [[nodiscard]] bool refused_anyway(const Siblings& one, const Siblings& other) const {
    return std::ranges::any_of(one.members, [&](const Studied& more) {
      return std::ranges::any_of(other.members,
                                 [&](const Studied& less) { return holds_all(entry(more), entry(less)); });
    });
  }
  [[nodiscard]] static bool holds_all(const Entry& more, const Entry& less) {
    if (more.seen != VerdictKind::error || less.seen != VerdictKind::error || !more.minimal || !less.minimal)
      return false;
    // Which form a law asks for its problem's seed decides, and no setting tells.
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
  [[nodiscard]] std::set<std::string> buckets_of(const Siblings& group) const {
    std::set<std::string> buckets;
    for (const Studied& member : group.members) buckets.insert(entry(member).bucket);
    return buckets;
  }

  // Of failures that are known to be its own: what nobody shrank may be of any defect.
  [[nodiscard]] bool is_frequent(const Studied& studied) const {
    return study_.own_failures(studied, {entry(studied).bucket}) >= enough_failures;
  }
  // It may bring groups together that were apart, unless it failed too seldom to say so: then it goes to the first of them.
  void add(Studied studied) {
    Siblings mine;
    for (std::size_t g = 0; g < groups_.size();) {
      const auto& others = groups_[g].members;
      if (!std::ranges::any_of(others, [&](const Studied& other) { return one_defect(studied, other); })) {
        ++g;
      } else if (!is_frequent(studied)) {
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
    std::map<std::string, std::size_t> keys;
    std::optional<Studied> best;
    bool best_fits = false;  // it says something, and most members need no form beside
    for (const Studied* member : weightiest) {
      const std::string key = to_text(member->key);
      if ((keys.size() >= most_keys_tried && !keys.contains(key)) || keys[key]++ >= most_of_key) continue;
      Studied tried = *member;
      study_.learn_from(tried, buckets);
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

  // What too few failures do not tell, or tell wrongly, a minimal reproducer may.
  void tell_of_few(Siblings& group) const {
    const Predicate& learned = group.speaker.learned.predicate;
    const auto refutes = [&](const Studied& member) { return study_.is_refuted(learned, member); };
    if (group.shown || (!learned.atoms.empty() && std::ranges::none_of(group.members, refutes))) return;
    const std::set<std::string> buckets = buckets_of(group);
    if (study_.own_failures(group.speaker, buckets) >= enough_failures) return;
    for (const bool of_calls : {false, true})  // what a law's own calls need is told where nothing else is
      for (const Studied& member : group.members) {
        Studied tried = member;
        if (makes_calls(entry(member)) != of_calls || !study_.learn_from_neighbours(tried, buckets)) continue;
        group.shown = std::move(tried);
        return;
      }
  }

  // Whether `other` is what `group` is about, by asking laws about reproducers.
  bool belongs(const Siblings& other, const Siblings& group) {
    if (!comparable(other, group)) return false;
    if (std::ranges::all_of(other.members, [&](const Studied& s) { return makes_calls(entry(s)); }))
      return fails_there(other, group) || enters(other, group);
    const Studied &theirs = group.members.front(), &its = other.members.front();
    // What is known to hold of nearly all failures of the group does not hold of this one.
    const Learned& learned = group.speaker.learned;
    if (necessary(learned) && entry(its).minimal && !learned.predicate.holds(its.row)) return false;
    // Nor is it of the group what shows in a form alone that the group does not need.
    if (!study_.forms_needed(its).empty() &&
        (!learned.predicate.holds(its.row) || study_.needs_a_form_beside(learned.predicate, its)))
      return false;
    return few(other, group) && entry(theirs).property != entry(its).property && fails(entry(its), theirs);
  }
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
  [[nodiscard]] bool fails_there(const Siblings& other, const Siblings& group) {
    const auto count = static_cast<std::ptrdiff_t>(std::min(group.members.size(), asked_of_each));
    return std::any_of(group.members.begin(), group.members.begin() + count,
                       [&](const Studied& at) { return fails(entry(at), other.members.front()); });
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
  // What fails by calls that follow each other, and not if an instance answers one call alone.
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
  [[nodiscard]] bool drifts_there(const Siblings& drift, const Siblings& group) const {
    const Predicate& predicate = group.speaker.learned.predicate;
    return entry(group.speaker).seen == VerdictKind::fail && of_one_case(entry(group.speaker)) &&
           !predicate.atoms.empty() && std::ranges::all_of(drift.members, [&](const Studied& member) {
             return !of_one_case(entry(member)) && predicate.holds(member.row);
           });
  }
  // Whether every kernel that gives the very numbers of the group gives those of `other`.
  bool accounted_for(const Siblings& other, const Siblings& group) {
    if (!comparable(other, group) || entry(other.speaker).seen != VerdictKind::fail) return false;
    const Accounts its = accounts(group);
    return its.problems >= 2 && !its.kernels.empty() && std::ranges::includes(accounts(other).kernels, its.kernels);
  }
  // Of all of its reproducers of which that can be told: one of an element or two tells little.
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

  const std::vector<Finding>& findings_;
  const Evidences& known_;
  Study study_;
  std::vector<Siblings> groups_;
  std::map<std::size_t, std::optional<Accounts>> accounts_;  // by finding
  std::map<std::pair<const Entry*, std::string>, Probed> probed_;
  int asked_left_ = most_asked, apart_left_ = most_asked_apart, accounts_left_ = most_accounts_asked;
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

bool explains(const Summary& summary, const Defect& defect, const AvoidRule& rule, const Supports& supports) {
  return std::ranges::any_of(defect.findings, [&](std::size_t i) {
    const Finding& finding = summary.findings[i];
    const std::string key = to_text(rule.key);
    const bool fails =
        to_text(failure_key_of(finding.entry)) == key || std::ranges::find(finding.shows, key) != finding.shows.end();
    return fails && rule.predicate.holds(finding.entry.problem, supports);
  });
}

}  // namespace attest::engine
