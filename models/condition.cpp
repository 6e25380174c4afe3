#include "models/condition.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/study.hpp"

namespace attest::models {
namespace {

using engine::Row;
using Kind = engine::Trait::Kind;

constexpr std::size_t most_related = 6;  // axes of which any two are compared
constexpr Index divisors[] = {2, 4, 8, 16};

}  // namespace

Fields::Fields(const graph::Family& family) : axes_(family.open_axes()) {
  const auto& model = family.program().model();
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    Input input{model.inputs[i].name, {}, {}};
    for (const graph::Regime regime : family.regimes(i)) {
      input.regimes.push_back(regime);
      input.labels.push_back(graph::name(regime));
    }
    inputs_.push_back(std::move(input));
  }
  for (const std::string& axis : axes_) traits_.push_back({"size." + axis, Kind::number, {}, 1, {}});
  for (const Input& input : inputs_) traits_.push_back({"values." + input.name, Kind::label, input.labels, 0, {}});
  const std::size_t related = std::min(axes_.size(), most_related);
  for (std::size_t a = 0; a < related; ++a)
    for (std::size_t b = a + 1; b < related; ++b)
      for (const char* const relation : {"<", ">", "!="})
        traits_.push_back({fmt::format("size.{}{}size.{}", axes_[a], relation, axes_[b]), Kind::flag, {}, 0, {}});
  for (const std::string& axis : axes_)
    for (const Index divisor : divisors)
      traits_.push_back({fmt::format("size.{}%{}", axis, divisor), Kind::remainder, {}, 0, {}});
}

Row Fields::row(const graph::Problem& problem) const {
  Row row;
  row.reserve(traits_.size());
  const auto size = [&](const std::string& axis) { return problem.sizes.at(axis); };
  for (const std::string& axis : axes_) row.push_back(static_cast<double>(size(axis)));
  for (const Input& input : inputs_)
    row.push_back(
        static_cast<double>(std::ranges::find(input.regimes, problem.values.at(input.name)) - input.regimes.begin()));
  const std::size_t related = std::min(axes_.size(), most_related);
  for (std::size_t a = 0; a < related; ++a)
    for (std::size_t b = a + 1; b < related; ++b) {
      const Index first = size(axes_[a]), second = size(axes_[b]);
      row.push_back(first < second ? 1 : 0);
      row.push_back(first > second ? 1 : 0);
      row.push_back(first != second ? 1 : 0);
    }
  for (const std::string& axis : axes_)
    for (const Index divisor : divisors) row.push_back(static_cast<double>(size(axis) % divisor));
  return row;
}

std::size_t RunTable::add(const graph::Problem& problem) {
  problems_.push_back(fields_.row(problem));
  return problems_.size() - 1;
}

Condition RunTable::learn(const Asked& asked) const {
  std::vector<const Row*> failing, passing;
  for (const Run& run : runs_) {
    if (run.subject != asked.subject || std::ranges::find(asked.levels, run.level) == asked.levels.end()) continue;
    if (run.finding == asked.finding)
      failing.push_back(&problems_[run.problem]);
    else if ((run.held >> asked.law & 1U) != 0)
      passing.push_back(&problems_[run.problem]);
  }
  const Row smallest = fields_.row(asked.smallest);
  std::vector<Row> options, values;  // neighbours of other sizes, and those that are made otherwise alone
  for (const graph::Problem& neighbour : asked.neighbours)
    (neighbour.sizes == asked.smallest.sizes ? values : options).push_back(fields_.row(neighbour));
  const engine::LearnOptions learning{.table = fields_.traits()};
  engine::Learned learned;
  if (failing.size() >= engine::enough_failures) {
    const Row* const anchor = &smallest;
    learned = engine::learn(engine::thinned_out(failing), engine::with_neighbours(passing, options, values),
                            std::span(&anchor, 1), learning);
  } else if (!options.empty() || !values.empty()) {
    learned = engine::learn_from_neighbours(failing, engine::thinned_out(passing), smallest,
                                            options.empty() ? values : options, values, learning);
  }
  if (learned.predicate.atoms.empty()) return {"", {failing.size(), failing.size() + passing.size(), 0, 0}};
  return {to_text(learned.predicate, fields_.traits()), separation(learned.predicate, failing, passing)};
}

}  // namespace attest::models
