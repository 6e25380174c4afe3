// (b) Problems that differ from one in one respect.
#include <fmt/format.h>

#include <algorithm>

#include "engine/explain/parts.hpp"

namespace attest::engine::explaining {
namespace {

// The next number above n that is a multiple.
Index multiple_above(Index n, Index of) { return (n / of + 1) * of; }

std::string words_of(const Field& field, const Problem& problem) {
  const Index value = field.get(problem);
  if (field.kind == FieldKind::label && value >= 0 && static_cast<std::size_t>(value) < field.labels.size())
    return std::string(field.labels[static_cast<std::size_t>(value)]);
  return std::to_string(value);
}

// The other values that a field may have.
std::vector<Index> others(const Field& field, const Problem& problem) {
  constexpr Index most_labels = 4;
  const Index now = field.get(problem);
  std::vector<Index> values;
  switch (field.kind) {
    case FieldKind::integer:
      if (field.group != FieldGroup::shape) break;
      if (now > 1) values.push_back(now - 1);
      values.push_back(now + 1);
      for (const Index m : {4, 16, 64})
        if (now % m != 0 && now < 1024) values.push_back(multiple_above(now, m));
      break;
    case FieldKind::label:
      for (Index label = 0; label < static_cast<Index>(field.labels.size()); ++label)
        if (label != now && static_cast<Index>(values.size()) < most_labels) values.push_back(label);
      break;
    case FieldKind::flag:
      values.push_back(1 - now);
      break;
    default:
      break;
  }
  return values;
}

}  // namespace

std::vector<Candidate> changes(const Problem& problem, const ShrinkLimits& limits) {
  std::vector<Candidate> found;
  const auto add = [&](Problem changed, std::string words) {
    auto fitting = fit(problem, std::move(changed), limits);
    if (!fitting || std::ranges::find(found, *fitting, &Candidate::problem) != found.end()) return;
    found.push_back({std::move(*fitting), std::move(words)});
  };
  for (const Field& field : problem.op().fields()) {
    if (!field.set || !field.get || field.group == FieldGroup::values) continue;
    if (!field.used(problem)) continue;
    for (const Index value : others(field, problem)) {
      Problem changed = problem;
      field.set(changed, value);
      add(changed, fmt::format("{}: {} -> {}", field.name, words_of(field, problem), words_of(field, changed)));
    }
  }
  for (Candidate& candidate : neighbours(problem, limits)) add(std::move(candidate.problem), candidate.change);
  return found;
}

}  // namespace attest::engine::explaining
