#include "engine/study.hpp"

#include <algorithm>
#include <utility>

#include "engine/shrink/candidates.hpp"
#include "properties/property.hpp"

namespace attest::engine {
namespace {

constexpr double sufficient_share = 0.9;  // share of the problems under a predicate that fail
constexpr double alike_share = 0.8;       // share of the failures under either of two predicates that lie under both
// A predicate may explain failures of no bucket for another finding if so many of the problems under it fail, and so
// many times as many as under that one's.
constexpr double explaining_share = 0.25, explaining_better = 1.5;

bool may_be_learned(const Entry& entry) { return entry.seen != VerdictKind::flaky; }

// The formats that a reproducer's neighbours may have.
std::vector<Format> every_format() {
  std::vector<Format> all;
  for (int i = 0; i < format_count; ++i) all.push_back(static_cast<Format>(i));
  return all;
}

// Tells whether two problems differ in the numbers that tensors hold and in nothing else.
bool differs_in_values(const Problem& a, const Problem& b) {
  return forms_of(a) == forms_of(b) && std::ranges::all_of(a.op().fields(), [&](const Field& field) {
           return field.group == FieldGroup::values || field.group == FieldGroup::origin || same_value(field, a, b);
         });
}

bool differs_in_forms(const Problem& a, const Problem& b) {
  return forms_of(a) != forms_of(b) &&
         std::ranges::all_of(a.op().fields(), [&](const Field& field) { return same_value(field, a, b); });
}

// Tells whether the same numbers are asked in the same shape, with another mask, scale, output, format or form.
bool differs_in_settings(const Problem& a, const Problem& b) {
  return std::ranges::all_of(a.op().fields(), [&](const Field& field) {
    const bool setting = field.group == FieldGroup::masks || field.group == FieldGroup::scaling ||
                         field.group == FieldGroup::outputs || field.group == FieldGroup::format;
    return setting || same_value(field, a, b);
  });
}

bool holds_of_one(const Predicate& predicate, const std::vector<Row>& rows) {
  return std::ranges::any_of(rows, [&](const Row& row) { return predicate.holds(row); });
}

// The row on which a case failed as `studied` did; nullptr if none is known.
const Row* failed_row(const CaseRow& row, const Studied& studied) {
  for (std::size_t i = 0; i < row.failures.size(); ++i) {
    const FailureKey& failure = row.failures[i];
    if (!studied.of_calls && in_one_way(failure, studied.key)) return &row.traits.row();
    if (studied.of_calls && kind_of(failure) == kind_of(studied.key))
      if (const Row* undone = row.undone(i)) return undone;
  }
  return nullptr;
}

}  // namespace

std::string kind_of(const FailureKey& key) {
  const bool number = key.kind == VerdictKind::fail && (key.what == "finite" || key.what == "nonfinite");
  return number ? std::string("number") : std::string(name(key.kind)) + "/" + key.what;
}

bool in_one_way(const FailureKey& a, const FailureKey& b) {
  return a.property == b.property && kind_of(a) == kind_of(b);
}

int weight_of(const FailureKey& key) {
  const Law* law = find_law(key.property);
  if (!law) return 1;
  return law->base_call() ? 3 : 2;
}

// A defect that fails often hides a rare one of the same law, as long as nobody says which of its failures are whose.
std::vector<Studied> Study::all() {
  std::vector<Studied> studied;
  for (std::size_t at = 0; at < findings_.size(); ++at) studied.push_back(of(at));
  for (std::size_t at = 0; at < findings_.size(); ++at) elsewhere_[at] = explained_elsewhere(studied[at], studied);
  for (std::size_t at = 0; at < findings_.size(); ++at)
    if (!elsewhere_[at].empty()) studied[at] = of(at);
  return studied;
}

// The failures inside the predicate of another that leaves out the reproducer of this one, and inside which far more of
// the problems fail than where this one's predicate holds.
std::unordered_set<const Row*> Study::explained_elsewhere(const Studied& studied,
                                                          const std::vector<Studied>& others) const {
  const auto share = [](const Studied& of) {
    const Separation& counts = of.learned.counts;
    return counts.asked == 0 ? 0 : static_cast<double>(counts.failing) / static_cast<double>(counts.asked);
  };
  std::vector<const Studied*> better;
  for (const Studied& other : others) {
    const Predicate& predicate = other.learned.predicate;
    const bool believed = !predicate.atoms.empty() && other.learned.counts.failing >= enough_failures &&
                          share(other) >= explaining_share && share(other) > explaining_better * share(studied);
    const bool said = std::ranges::any_of(better, [&](const Studied* one) {
      return one->learned.predicate == predicate && in_one_way(one->key, other.key);
    });
    if (believed && !said && !predicate.holds(studied.row)) better.push_back(&other);
  }
  std::unordered_set<const Row*> rows;
  if (better.empty()) return rows;
  for (const CaseRow& row : table_.rows()) {
    if (bucket_of(row) != nullptr) continue;
    for (const Studied* other : better)
      if (const Row* failed = failed_row(row, *other); failed && other->learned.predicate.holds(*failed))
        rows.insert(failed);
  }
  return rows;
}

Studied Study::of(std::size_t finding) const {
  const Entry& entry = findings_[finding].entry;
  const FailureKey own = failure_key_of(entry);
  Studied studied{finding, own, {to_text(own)}, row_of(entry.problem, table_.supports()), {}, {}};
  studied.shows.insert(findings_[finding].shows.begin(), findings_[finding].shows.end());
  if (own.kind != VerdictKind::fail && may_be_learned(entry)) {
    studied.of_calls = find_law(entry.property)->base_call();
    if (const auto call = studied.of_calls || !undone_ ? std::nullopt : undone_(entry)) {
      studied.row = row_of_call(*call, entry.problem, table_.supports());
      studied.of_calls = true;
    }
  }
  const std::set<std::string> bucket{entry.bucket};
  choose_key(studied, bucket);
  learn_from(studied, bucket);
  studied.own = own_failures(studied, bucket);
  return studied;
}

void Study::learn_from(Studied& studied, const std::set<std::string>& buckets,
                       const std::vector<const Studied*>& others) const {
  static const Neighbours none_known;
  const Entry& entry = findings_[studied.finding].entry;
  if (!may_be_learned(entry)) return;
  studied.failing = failing(studied, buckets);
  std::erase_if(studied.failing, [&](const Row* row) {
    return elsewhere_[studied.finding].contains(row) &&
           std::ranges::all_of(others, [&](const Studied* other) { return elsewhere_[other->finding].contains(row); });
  });
  const bool own = studied.key == failure_key_of(entry) && (!studied.of_calls || find_law(entry.property)->base_call());
  const Neighbours& beside = own ? passing_neighbours(studied.finding) : none_known;
  const std::vector<const Row*> passing = this->passing(studied);
  const std::vector<const Row*> some = with_neighbours(passing, beside.options, beside.values);
  std::vector<const Row*> anchors{&studied.row};
  for (const Studied* other : others) anchors.push_back(&other->row);
  const LearnOptions options{.of_layout = !studied.of_calls && studied.key.property == "layout"};
  studied.learned = learn(thinned_out(studied.failing), some, anchors, options);
  // Failures that nobody shrank may be of so many defects that all together have nothing in common, or nothing of this
  // one.
  const auto refuted = [&](const Predicate& predicate) {
    return !predicate.atoms.empty() && holds_of_one(predicate, beside.settings);
  };
  const bool of_others = needs_a_form_beside(studied.learned.predicate, studied);
  const bool doubtful = studied.learned.predicate.atoms.empty() || of_others || refuted(studied.learned.predicate);
  if (std::vector<const Row*> known = own_failing(studied, buckets);
      doubtful && known.size() < studied.failing.size()) {
    Learned learned = learn(thinned_out(known), some, anchors, options);
    const bool says = !learned.predicate.atoms.empty() && !refuted(learned.predicate);
    if (says || of_others || studied.learned.predicate.atoms.empty()) studied.learned = std::move(learned);
    if (says || of_others) studied.failing = std::move(known);
  }
  studied.learned.counts = separation(studied.learned.predicate, studied.failing, passing);
}

bool Study::learn_from_neighbours(Studied& studied, const std::set<std::string>& buckets) const {
  const Entry& entry = findings_[studied.finding].entry;
  // Neighbours are of the problem, whichever call of a law was not done.
  studied.row = row_of(entry.problem, table_.supports());
  if (studied.of_calls && !find_law(entry.property)->base_call()) {
    studied.of_calls = false;
    studied.key = failure_key_of(entry);
    studied.failing = failing(studied, buckets);
  }
  const std::vector<const Row*> own_failing = this->own_failing(studied, buckets);
  if (!may_be_learned(entry) || own_failing.size() >= enough_failures) return false;
  const Neighbours& beside = passing_neighbours(studied.finding);
  const std::vector<const Row*> passing = this->passing(studied);
  if (beside.options.empty()) return false;
  studied.learned =
      engine::learn_from_neighbours(own_failing, thinned_out(passing), studied.row, beside.options, beside.values, {});
  studied.learned.counts = separation(studied.learned.predicate, studied.failing, passing);
  return !studied.learned.predicate.atoms.empty();
}

std::vector<const Row*> Study::own_failing(const Studied& studied, const std::set<std::string>& buckets) const {
  std::vector<const Row*> rows;
  for (const CaseRow& row : table_.rows())
    if (bucket_of(row) != nullptr && is_of(row, buckets))
      if (const Row* failed = failed_row(row, studied)) rows.push_back(failed);
  return rows;
}

std::vector<const Row*> Study::problems_of(const std::set<std::string>& buckets) const {
  std::vector<const Row*> rows;
  for (const CaseRow& row : table_.rows())
    if (bucket_of(row) != nullptr && is_of(row, buckets)) rows.push_back(&row.traits.row());
  return rows;
}

std::size_t Study::own_failures(const Studied& studied, const std::set<std::string>& buckets) const {
  return own_failing(studied, buckets).size();
}

bool Study::is_need(const Predicate& predicate, const Studied& studied) const {
  return !passing_neighbours(studied.finding).options.empty() && predicate.holds(studied.row) &&
         studied.row == row_of(findings_[studied.finding].entry.problem, table_.supports()) &&
         !is_refuted(predicate, studied);
}

bool Study::is_refuted(const Predicate& predicate, const Studied& studied) const {
  return holds_of_one(predicate, passing_neighbours(studied.finding).options);
}

bool Study::needs_a_form_beside(const Predicate& predicate, const Studied& studied) const {
  return !predicate.atoms.empty() && holds_of_one(predicate, passing_neighbours(studied.finding).forms);
}

std::vector<const Row*> Study::failing(const Studied& studied, const std::set<std::string>& buckets) const {
  std::vector<const Row*> rows;
  for (const CaseRow& row : table_.rows())
    if (is_of(row, buckets))
      if (const Row* failed = failed_row(row, studied)) rows.push_back(failed);
  return rows;
}

std::vector<const Row*> Study::passing(const Studied& studied) const {
  return studied.of_calls ? table_.answered() : table_.holding(studied.key.property);
}

double Study::bits_given(const Studied& studied, std::initializer_list<const Predicate*> predicates) const {
  return description_bits({predicates.begin(), predicates.size()}, thinned_out(studied.failing),
                          thinned_out(passing(studied)), studied.learned.atom_bits);
}

const std::string* Study::bucket_of(const CaseRow& row) const {
  const auto found = buckets_.find(row.signature);
  return found == buckets_.end() || found->second.empty() ? nullptr : &found->second;
}

bool Study::is_of(const CaseRow& row, const std::set<std::string>& buckets) const {
  const std::string* bucket = bucket_of(row);
  return bucket == nullptr || buckets.contains(*bucket);
}

// Chooses the weightiest of the laws that fail on the reproducer, or that made a call which was not done; among equals
// the one that failed in most of the problems.
void Study::choose_key(Studied& studied, const std::set<std::string>& bucket) const {
  const std::string kind = kind_of(studied.key);
  std::map<std::string, std::pair<FailureKey, std::size_t>> seen;
  for (const CaseRow& row : table_.rows()) {
    if (row.failures.empty() || !is_of(row, bucket)) continue;
    for (const FailureKey& key : row.failures)
      if (const std::string text = to_text(key);
          kind_of(key) == kind && (studied.of_calls || studied.shows.contains(text))) {
        auto& [known, count] = seen[text];
        known = key;
        ++count;
      }
  }
  std::pair<int, std::size_t> most{0, 0};
  for (const auto& [text, entry] : seen)
    if (const std::pair merit{weight_of(entry.first), entry.second}; merit > most) {
      most = merit;
      studied.key = entry.first;
    }
}

const Study::Neighbours& Study::passing_neighbours(std::size_t finding) const {
  const auto [known, first] = neighbours_.try_emplace(finding);
  Neighbours& found = known->second;
  const Entry& entry = findings_[finding].entry;
  if (!first || !entry.minimal) return found;
  for (const Candidate& neighbour : tried_neighbours(entry, table_.supports())) {
    Row row = row_of(neighbour.problem, table_.supports());
    if (differs_in_forms(neighbour.problem, entry.problem)) {
      found.forms.push_back(row);
      for (const FormChoice& form : forms_of(entry.problem))
        if (std::ranges::find(forms_of(neighbour.problem), form) == forms_of(neighbour.problem).end())
          found.needed.insert(form.name + "=" + form.value);
    }
    if (differs_in_settings(neighbour.problem, entry.problem)) found.settings.push_back(row);
    (differs_in_values(neighbour.problem, entry.problem) ? found.values : found.options).push_back(std::move(row));
  }
  return found;
}

std::vector<Candidate> tried_neighbours(const Entry& entry, const Supports& supports) {
  const std::set<std::string> tried(entry.neighbours.begin(), entry.neighbours.end());
  std::vector<Candidate> all = neighbours(entry.problem, {supports, every_format(), {}});
  std::erase_if(all, [&](const Candidate& neighbour) { return !tried.contains(neighbour.change); });
  return all;
}

bool sufficient(const Learned& learned) {
  const Separation& counts = learned.counts;
  return !learned.predicate.atoms.empty() && counts.failing >= enough_failures &&
         static_cast<double>(counts.failing) >= sufficient_share * static_cast<double>(counts.asked);
}

bool separates(const Learned& learned) {
  const auto& [failing, asked, failing_elsewhere, elsewhere] = learned.counts;
  return !learned.predicate.atoms.empty() && failing >= enough_failures &&
         failing * elsewhere >= 10 * failing_elsewhere * asked;
}

bool necessary(const Learned& learned) {
  return separates(learned) && 20 * learned.counts.failing_elsewhere <= learned.counts.failing;
}

bool alike(const Studied& a, const Studied& b) {
  // If many failures taught nothing, nothing tells the two apart; if few did, nobody knows.
  if (a.learned.predicate.atoms.empty() || b.learned.predicate.atoms.empty())
    return a.learned.predicate == b.learned.predicate && a.failing.size() >= enough_failures &&
           b.failing.size() >= enough_failures;
  if (a.learned.predicate == b.learned.predicate) return true;
  if (!in_one_way(a.key, b.key)) return false;
  std::size_t both = 0, either = 0;
  for (const auto* rows : {&a.failing, &b.failing})
    for (const Row* row : *rows) {
      const bool in_a = a.learned.predicate.holds(*row), in_b = b.learned.predicate.holds(*row);
      both += in_a && in_b;
      either += in_a || in_b;
    }
  return either > 0 && static_cast<double>(both) >= alike_share * static_cast<double>(either);
}

}  // namespace attest::engine
