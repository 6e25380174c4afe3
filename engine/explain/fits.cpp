// (c) Which other promises, and which other readings of the call, permit the numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "engine/explain/parts.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine::explaining {
namespace {

using ops::Departure;

bool permits(std::span<const Heard> calls, const Contract& contract, std::size_t variant, Index work) {
  return std::ranges::none_of(calls, [&](const Heard& call) {
    return call.reading && call.reading->judge(contract, variant, work) == VerdictKind::fail;
  });
}

// Tells whether some right kernel that keeps this contract gives what every call gave, bit for bit.
bool is_exact(std::span<const Heard> calls, const Op& op, const Departure& departure) {
  constexpr std::size_t most_kernels = 3;
  std::vector<const KeptCall*> asked;
  for (const Heard& call : calls) {
    if (call.call->result().status != CallStatus::done) return false;
    asked.push_back(call.call);
  }
  const std::vector<ListedSubject> kernels = builtin_subjects(op.name());
  const Understudy understudy(op, departure.contract);
  return std::any_of(kernels.begin(),
                     kernels.begin() + static_cast<std::ptrdiff_t>(std::min(kernels.size(), most_kernels)),
                     [&](const ListedSubject& kernel) {
                       const std::vector<CallCopy> answers = understudy.answers(kernel.name, asked);
                       bool same = !answers.empty();
                       for (std::size_t i = 0; same && i < answers.size(); ++i) same = asked[i]->same(answers[i]);
                       return same;
                     });
}

// Promises held against whole calls, as far as there is room for that.
class Asked {
 public:
  Asked(const Evidenced& basis, const Budget& budget, Index sample)
      : basis_(basis), budget_(budget), sample_(sample), left_(budget.limits.fit_work) {
    for (const Heard& call : basis.heard) whole_ += call.work();
  }

  enum class Answer : std::uint8_t { fits, excluded, unknown };
  // Every number of every call: first of a few rows, which exclude most promises.
  Answer hold(const Departure& departure) {
    if (whole_ <= sample_) return hold_rows(departure, whole_);
    if (hold_rows(departure, sample_) == Answer::excluded) return Answer::excluded;
    if (budget_.over() || left_ < whole_) {
      ++unasked_;
      return Answer::unknown;
    }
    left_ -= whole_;
    return hold_rows(departure, whole_);
  }
  [[nodiscard]] double fill(const Departure& departure) const {
    double most = 0;
    for (const Heard& call : basis_.heard)
      if (call.outside)
        most = std::max(most, filled(call.elements, call.reading->elements(departure.contract, departure.variant,
                                                                           budget_.limits.oracle_work)));
    return most;
  }
  // Promises that fit some rows and were not held against all.
  [[nodiscard]] int unasked() const noexcept { return unasked_; }

 private:
  // A wrong element must be permitted, and not only not excluded, as where the bound says nothing any more.
  [[nodiscard]] Answer hold_rows(const Departure& departure, Index work) const {
    Answer answer = Answer::fits;
    for (const Heard& call : basis_.heard) {
      if (!call.reading) continue;
      const VerdictKind kind = call.reading->judge(departure.contract, departure.variant, work);
      if (kind == VerdictKind::fail) return Answer::excluded;
      if (call.outside && kind != VerdictKind::pass) answer = Answer::unknown;
    }
    return answer;
  }

  const Evidenced& basis_;
  const Budget& budget_;
  Index sample_, left_, whole_ = 0;
  int unasked_ = 0;
};

}  // namespace

double filled(std::span<const Element> declared, std::span<const Element> other) {
  double most = 0;
  std::size_t j = 0;
  for (const Element& now : declared) {
    if (now.outcome != oracle::Outcome::outside) continue;
    // Both are in one order, and elements of which nothing is said may be missing.
    const auto is_it = [&](const Element& e) { return e.tensor == now.tensor && e.index == now.index; };
    const auto then = std::ranges::find_if(other.subspan(j), is_it);
    if (then == other.end()) continue;
    j = static_cast<std::size_t>(then - other.begin()) + 1;
    if (then->outcome != oracle::Outcome::inside) continue;
    // No number, or one number: it is what must come out, whatever was right.
    if (!then->number || then->lo == then->hi) return 1;
    const double error = std::fabs(now.got - now.exact), length = then->hi - then->lo;
    const double fill = !std::isfinite(length) ? 0 : std::isfinite(error) ? std::min(1., error / length) : 1;
    if (fill > most) most = fill;  // and nothing that is NaN
  }
  return most;
}

void find_fits(std::span<const Evidenced> all, const Op& op, const Budget& budget, Explanation& into) {
  const Evidenced* basis = nullptr;
  for (const Evidenced& evidence : all)
    if (!basis && first_outside(evidence.heard) < evidence.heard.size()) basis = &evidence;
  if (!basis) return;
  const Heard& wrong = basis->heard[first_outside(basis->heard)];
  // A small work shows most failures; the whole limit is spent on one that it does not show.
  constexpr Index work_elsewhere = Index{1} << 14;
  Index work = Index{1} << 16;
  if (wrong.reading->judge(basis->contract, 0, work) != VerdictKind::fail) work = budget.limits.oracle_work;
  Index work_of_basis = 0;
  for (const Heard& call : basis->heard) work_of_basis += call.work();
  const bool kernels_may_run = work_of_basis <= budget.limits.hypothesis_work / 128;
  const std::vector<Departure> departures = wrong.reading->departures(basis->contract);
  const bool formats_alone =
      std::min(work, work_of_basis) * static_cast<Index>(departures.size()) > 2 * budget.limits.oracle_work;
  Asked asked(*basis, budget, work);
  if (formats_alone)
    into.notes.emplace_back("a call this large is compared with other formats alone, not with other meanings");
  // Departures that permit everything everywhere come before those that explain the problem alone.
  std::map<std::string_view, double> found;  // by group, the least size that fits everywhere
  std::map<const Evidenced*, std::map<std::string, Departure>>
      elsewhere;  // departures on problems under other contracts, by words
  const auto of_another = [&](const Evidenced& other, const Departure& departure) -> const Departure* {
    if (other.contract == basis->contract) return &departure;
    auto [known, first] = elsewhere.try_emplace(&other);
    const std::size_t told = first_outside(other.heard);
    const auto reading = std::ranges::find_if(other.heard, [](const Heard& call) { return call.reading != nullptr; });
    if (first && reading != other.heard.end()) {
      const Heard& call = told < other.heard.size() ? other.heard[told] : *reading;
      for (Departure& one : call.reading->departures(other.contract)) {
        std::string words = one.words;
        known->second.emplace(std::move(words), std::move(one));
      }
    }
    const auto same = known->second.find(departure.words);
    return same == known->second.end() ? nullptr : &same->second;
  };
  for (const Departure& departure : departures) {
    if (formats_alone && departure.kind != Departure::Kind::format) continue;
    if (budget.over()) {
      into.notes.emplace_back("not every promise was held against it: the time was over");
      break;
    }
    const auto of_group = found.find(departure.group);
    if (of_group != found.end() && departure.size > of_group->second) continue;
    // The numbers of a right kernel are permitted, though the bound may say nothing of them, as where something
    // overflows.
    const bool exact = departure.kind == Departure::Kind::format && kernels_may_run &&
                       is_exact(basis->heard, op, departure) &&
                       permits(basis->heard, departure.contract, departure.variant, work_of_basis);
    if (!exact && asked.hold(departure) != Asked::Answer::fits) continue;
    Fit fit{departure.words, std::string(departure.stage), departure.kind, asked.fill(departure), 0, 0, exact ? 1 : 0};
    if (!exact && !(fit.fill >= Fit::least_fill)) continue;
    for (const Evidenced& other : all) {
      if (&other == basis) continue;
      const Departure* its = of_another(other, departure);
      if (its == nullptr) continue;
      ++fit.asked;
      if (exact) fit.exact += is_exact(other.heard, op, *its);
      fit.also += permits(other.heard, its->contract, its->variant, work_elsewhere);
    }
    if (fit.also == fit.asked) found.emplace(departure.group, departure.size);
    into.fits.push_back(std::move(fit));
  }
  // Meanings in the order of their table, behind them what the error fills most of.
  std::ranges::stable_sort(into.fits, [](const Fit& a, const Fit& b) {
    const bool meaning_a = a.kind == Departure::Kind::semantics, meaning_b = b.kind == Departure::Kind::semantics;
    if (a.everywhere() != b.everywhere()) return a.everywhere();
    if (meaning_a != meaning_b) return meaning_a;
    if (a.exact != b.exact) return a.exact > b.exact;
    return !meaning_a && a.fill > b.fill;
  });
  std::vector<std::pair<double, std::string>> fitting;
  for (const Departure& policy : wrong.reading->policies(basis->contract)) {
    if (budget.over()) break;
    const Asked::Answer answer = asked.hold(policy);
    if (answer == Asked::Answer::excluded)
      into.policies_excluded.push_back(policy.words);
    else if (const double fill = answer == Asked::Answer::fits ? asked.fill(policy) : 0; fill >= Fit::least_fill)
      fitting.emplace_back(fill, policy.words);
  }
  std::ranges::stable_sort(fitting, std::greater(), [](const auto& policy) { return policy.first; });
  for (auto& [fill, words] : fitting) into.policies_that_fit.push_back(std::move(words));
  if (asked.unasked() > 0)
    into.notes.push_back(fmt::format("{} {} some rows, and there was no room to hold all against {}", asked.unasked(),
                                     asked.unasked() == 1 ? "promise fits" : "promises fit",
                                     asked.unasked() == 1 ? "it" : "them"));
}

}  // namespace attest::engine::explaining
