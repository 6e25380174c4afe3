// (c) Which other promises, and which other readings of the call, permit the numbers.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/explain/parts.hpp"

namespace attest::engine::explaining {
namespace {

using ops::Departure;

// Whether it permits what every call gave, and says something of the call at `outside`.
bool permits(std::span<const Heard> calls, std::size_t outside, const Contract& contract, std::size_t variant,
             Index work) {
  if (calls[outside].reading->judge(contract, variant, work) != VerdictKind::pass) return false;
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (i != outside && calls[i].reading && calls[i].reading->judge(contract, variant, work) == VerdictKind::fail)
      return false;
  return true;
}

// How wide it is where elements are wrong: the mean of log2 of its intervals over the declared ones.
double width(const Heard& call, const Departure& departure, Index work) {
  const std::vector<Element> elements = call.reading->elements(departure.contract, departure.variant, work);
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < std::min(elements.size(), call.elements.size()); ++i) {
    const Element &then = elements[i], &now = call.elements[i];
    if (now.outcome != oracle::Outcome::outside || !std::isfinite(now.got)) continue;
    const double tiny = std::max(std::fabs(now.exact), std::fabs(now.got)) * 0x1p-60 + 0x1p-1070;
    sum += std::log2((then.hi - then.lo + tiny) / (now.hi - now.lo + tiny));
    ++count;
  }
  return count > 0 && std::isfinite(sum) ? sum / count : 0;
}

}  // namespace

void find_fits(std::span<const Heard> calls, const Contract& contract, const Budget& budget, Explanation& into) {
  const std::size_t outside = first_outside(calls);
  if (outside == calls.size()) return;
  const Heard& wrong = calls[outside];
  const Index work = budget.limits.oracle_work;
  const std::vector<Departure> departures = wrong.reading->departures(contract);
  std::map<std::string_view, double> found;  // by group, the least size that fits
  for (const Departure& departure : departures) {
    if (budget.over()) {
      into.notes.emplace_back("not every promise was held against it: the time was over");
      break;
    }
    const auto of_group = found.find(departure.group);
    if (of_group != found.end() && departure.size > of_group->second) continue;
    if (!permits(calls, outside, departure.contract, departure.variant, work)) continue;
    found.emplace(departure.group, departure.size);
    into.fits.push_back({departure.words, std::string(departure.stage), departure.kind, width(wrong, departure, work)});
  }
  std::ranges::stable_sort(into.fits, {}, &Fit::width);
  for (const Departure& policy : wrong.reading->policies(contract)) {
    if (budget.over()) break;
    (permits(calls, outside, policy.contract, 0, work) ? into.policies_that_fit : into.policies_excluded)
        .push_back(policy.words);
  }
}

}  // namespace attest::engine::explaining
