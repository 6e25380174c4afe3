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

Outcome ask(const Draw& draw) {
  Outcome outcome;
  std::vector<Standing> drawn;
  bool left = true;
  const auto look = [&](std::size_t n, int most) {
    if (n == drawn.size()) drawn.emplace_back(draw(static_cast<int>(n)));
    left = drawn[n].among(most);
  };
  for (const int most : {few_members, many_members})
    for (std::size_t n = 0; n < draws && left; ++n) look(n, most);
  outcome.found = left;
  outcome.elements = drawn.front().elements();
  for (const Standing& standing : drawn) {
    outcome.r.push_back(standing.r());
    outcome.members = std::max(outcome.members, standing.members());
  }
  if (!left) return outcome;
  outcome.worst = drawn.front().worst();
  outcome.nearest = drawn.front().nearest();
  return outcome;
}

std::string in_words(const Outcome& outcome) {
  const Standing::Element& worst = outcome.worst;
  return fmt::format(
      "a statistic, no proof: over {} element{} of out, beside {} conforming kernels drawn from the contract in each "
      "of "
      "{} "
      "draws, R is {} ({:g} is the limit); out[{}] errs by {:.3g}, all kernels by {:.3g} at most; the nearest kernel: "
      "{}",
      outcome.elements, outcome.elements == 1 ? "" : "s", outcome.members, outcome.r.size(), list(outcome.r), largest_r,
      fmt::join(worst.place, ","), std::fabs(worst.got - worst.exact), worst.member, outcome.nearest);
}

}  // namespace attest::ensemble
