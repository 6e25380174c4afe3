#include "ensemble/steps.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace attest::ensemble {
namespace {

std::string list(const std::vector<double>& numbers) {
  std::string text;
  for (const double x : numbers) text += fmt::format("{}{:.3g}", text.empty() ? "" : ", ", x);
  return text;
}

}  // namespace

Outcome ask(const Draw& draw, bool again, bool briefly) {
  Outcome outcome;
  if (!again) outcome.limits = of_one_draw;
  std::vector<Standing> drawn;
  Which left;
  const auto look = [&](std::size_t n, int most) {
    if (n == drawn.size()) drawn.emplace_back(draw(static_cast<int>(n)));
    left = drawn[n].among(most, left, outcome.limits);
  };
  const std::size_t all = again && !briefly ? draws : 1;
  for (const int most : {few_members, many_members}) {
    if (briefly && most == many_members) break;
    for (std::size_t n = 0; n < all && left.any(); ++n) look(n, most);
  }
  outcome.found = left;
  outcome.elements = drawn.front().elements();
  for (const Standing& standing : drawn) {
    outcome.r.push_back(standing.r());
    outcome.e.push_back(standing.e());
    outcome.members = std::max(outcome.members, standing.members());
  }
  if (!left.any()) return outcome;
  outcome.worst = drawn.front().worst();
  outcome.nearest = drawn.front().nearest();
  return outcome;
}

std::string in_words(const Outcome& outcome) {
  std::string text = fmt::format(
      "a statistic, no proof: over {} elements of out, beside {} conforming kernels drawn from the "
      "contract in each of {} draws, ",
      outcome.elements, outcome.members, outcome.r.size());
  text += fmt::format("R is {} ({:g} is the limit)", list(outcome.r), outcome.limits.r);
  if (std::isfinite(outcome.limits.e))
    text += fmt::format(" and E {} ({:g}), largest at out[{}]", list(outcome.e), outcome.limits.e,
                        fmt::join(outcome.worst.place, ","));
  return text + "; the nearest member: " + outcome.nearest;
}

}  // namespace attest::ensemble
