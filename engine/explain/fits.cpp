// (c) Which other promises, and which other readings of the call, permit the numbers.
#include <algorithm>
#include <cmath>
#include <map>

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

// How wide it is: the mean of log2 of its intervals over the declared ones, over the elements of several problems. What widens least
// says most: it is the likeliest of those that permit everything.
double width(std::span<const Evidenced> all, const Contract& declared, const Departure& departure, Index work) {
  double sum = 0;
  int count = 0;
  for (const Evidenced& evidence : all) {
    if (!(evidence.contract == declared)) continue;
    for (const Heard& call : evidence.heard) {
      if (!call.reading || (work -= call.work()) < 0) continue;
      const std::vector<Element> elements = call.reading->elements(departure.contract, departure.variant, call.work());
      for (std::size_t i = 0; i < std::min(elements.size(), call.elements.size()); ++i) {
        const Element &then = elements[i], &now = call.elements[i];
        if (now.outcome == oracle::Outcome::undetermined || !std::isfinite(now.got) || !std::isfinite(now.exact))
          continue;
        const double tiny = std::max(std::fabs(now.exact), std::fabs(now.got)) * 0x1p-60 + 0x1p-1070;
        const double wider = std::log2((then.hi - then.lo + tiny) / (now.hi - now.lo + tiny));
        if (!std::isfinite(wider)) continue;
        sum += wider;
        ++count;
      }
    }
  }
  return count > 0 ? sum / count : 0;
}

// Whether some right kernel that keeps this contract gives what every call gave, bit for bit.
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

}  // namespace

void find_fits(std::span<const Evidenced> all, const Op& op, const Budget& budget, Explanation& into) {
  const Evidenced* basis = nullptr;
  for (const Evidenced& evidence : all)
    if (!basis && first_outside(evidence.heard) < evidence.heard.size()) basis = &evidence;
  if (!basis) return;
  const Heard& wrong = basis->heard[first_outside(basis->heard)];
  // As many rows as show it, and fewer where few do.
  constexpr Index work_elsewhere = Index{1} << 14;
  Index work = Index{1} << 16;
  if (wrong.reading->judge(basis->contract, 0, work) != VerdictKind::fail) work = budget.limits.oracle_work;
  Index work_of_basis = 0;
  for (const Heard& call : basis->heard) work_of_basis += call.work();
  const bool kernels_may_run = work_of_basis <= budget.limits.hypothesis_work / 128;
  const std::vector<Departure> departures = wrong.reading->departures(basis->contract);
  const bool formats_alone =
      std::min(work, work_of_basis) * static_cast<Index>(departures.size()) > 2 * budget.limits.oracle_work;
  if (formats_alone)
    into.notes.emplace_back("a call this large is held against other formats alone, not other meanings");
  const auto fits_basis = [&](const Departure& departure) {
    return wrong.reading->judge(departure.contract, departure.variant, work) == VerdictKind::pass &&
           permits(basis->heard, departure.contract, departure.variant, work);
  };
  // Those of which everything is permitted everywhere come before those that explain the problem alone.
  std::map<std::string_view, double> found;  // by group, the least size that fits everywhere
  std::map<const Evidenced*, std::map<std::string, Departure>>
      elsewhere;  // of problems under other contracts, by words
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
    const bool exact =
        departure.kind == Departure::Kind::format && kernels_may_run && is_exact(basis->heard, op, departure);
    if (!exact && !fits_basis(departure)) continue;
    Fit fit{departure.words,
            std::string(departure.stage),
            departure.kind,
            width(all, basis->contract, departure, 4 * work_elsewhere),
            0,
            0,
            exact ? 1 : 0};
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
  // Meanings in the order of their table, behind them what widens least.
  std::ranges::stable_sort(into.fits, [](const Fit& a, const Fit& b) {
    const bool meaning_a = a.kind == Departure::Kind::semantics, meaning_b = b.kind == Departure::Kind::semantics;
    if (a.everywhere() != b.everywhere()) return a.everywhere();
    if (meaning_a != meaning_b) return meaning_a;
    if (a.exact != b.exact) return a.exact > b.exact;
    return !meaning_a && a.width < b.width;
  });
  for (const Departure& policy : wrong.reading->policies(basis->contract)) {
    if (budget.over()) break;
    (fits_basis(policy) ? into.policies_that_fit : into.policies_excluded).push_back(policy.words);
  }
}

}  // namespace attest::engine::explaining
