#include "models/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace attest::models {
namespace {

constexpr std::uint64_t most_looked_at = 100'000;  // takes a few tenths of a second
constexpr std::size_t most_tables = 12;

// 1, 2, 3..4, 5..8, 9..16, ...
std::size_t class_of(Index length) { return std::bit_width(static_cast<std::uint64_t>(length - 1)); }
std::string name_of_class(std::size_t k) {
  if (k < 2) return std::to_string(k + 1);
  return fmt::format("{}..{}", (Index{1} << (k - 1)) + 1, Index{1} << k);
}

// A field of problems: which of its values one has, by position.
struct Tally {
  std::string name;
  bool axis = false;
  std::string key;                       // in the problem's sizes or values
  std::vector<graph::Regime> regimes{};  // an input's
  std::vector<std::uint64_t> counts{};

  [[nodiscard]] std::size_t position(const graph::Problem& problem) const {
    if (axis) return class_of(problem.sizes.at(key));
    return static_cast<std::size_t>(std::ranges::find(regimes, problem.values.at(key)) - regimes.begin());
  }
  [[nodiscard]] std::string value(std::size_t at) const {
    return axis ? name_of_class(at) : std::string(graph::name(regimes[at]));
  }
};

std::vector<Tally> fields_of(const graph::Family& family) {
  std::vector<Tally> fields;
  for (const std::string& axis : family.open_axes())
    fields.push_back({"size." + axis, true, axis, {}, std::vector<std::uint64_t>(64)});
  const auto& inputs = family.program().model().inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto regimes = family.regimes(i);
    fields.push_back({"values." + inputs[i].name,
                      false,
                      inputs[i].name,
                      {regimes.begin(), regimes.end()},
                      std::vector<std::uint64_t>(regimes.size())});
  }
  return fields;
}

std::vector<std::size_t> drawn(const Tally& field) {
  std::vector<std::size_t> positions;
  for (std::size_t at = 0; at < field.counts.size(); ++at)
    if (field.counts[at] > 0) positions.push_back(at);
  return positions;
}

// Fields whose values come together in a table, by position.
std::vector<std::pair<std::size_t, std::size_t>> crossings(const std::vector<Tally>& fields) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (const bool inputs : {false, true})
    for (std::size_t a = 0; a < fields.size(); ++a)
      for (std::size_t b = a + 1; b < fields.size() && pairs.size() < most_tables; ++b)
        if (fields[a].axis && fields[b].axis != inputs) pairs.emplace_back(a, b);
  return pairs;
}

}  // namespace

Coverage coverage_of(const Stream& stream, std::uint64_t cases) {
  Coverage coverage;
  coverage.problems = std::min(cases, most_looked_at);
  std::vector<Tally> fields = fields_of(stream.family());
  std::vector<std::vector<std::size_t>> positions;
  for (std::uint64_t number = 0; number < coverage.problems; ++number) {
    const graph::Problem problem = stream.problem(number);
    auto& of_one = positions.emplace_back();
    for (Tally& field : fields) {
      of_one.push_back(field.position(problem));
      ++field.counts[of_one.back()];
    }
  }
  for (const Tally& field : fields) {
    auto& shown = coverage.fields.emplace_back(Coverage::Field{field.name, {}});
    for (const std::size_t at : drawn(field)) shown.values.emplace_back(field.value(at), field.counts[at]);
  }
  for (const auto& [a, b] : crossings(fields)) {
    const auto rows = drawn(fields[a]), columns = drawn(fields[b]);
    Coverage::Table table{fields[a].name + " and " + fields[b].name, {}, {}, {}};
    for (const std::size_t at : rows) table.rows.push_back(fields[a].value(at));
    for (const std::size_t at : columns) table.columns.push_back(fields[b].value(at));
    table.cells.assign(rows.size(), std::vector<std::uint64_t>(columns.size()));
    for (const auto& of_one : positions) {
      const auto row = std::ranges::lower_bound(rows, of_one[a]) - rows.begin();
      const auto column = std::ranges::lower_bound(columns, of_one[b]) - columns.begin();
      ++table.cells[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
    }
    coverage.tables.push_back(std::move(table));
  }
  return coverage;
}

}  // namespace attest::models
