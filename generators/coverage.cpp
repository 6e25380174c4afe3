#include "generators/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "generators/draw.hpp"
#include "generators/field_counter.hpp"

namespace attest {
namespace {

class FormCounter {
 public:
  explicit FormCounter(const FormOffer& offer) : offer_(offer), count_{"form." + offer.name, true, {}, {}} {
    for (const std::string& value : offer.values) count_.values.emplace_back(value, 0);
  }
  void count(const Problem& problem) {
    ++std::ranges::find(count_.values, form_value(offer_, problem.forms), &Value::first)->second;
  }
  [[nodiscard]] const FieldCount& result() const { return count_; }

 private:
  using Value = std::pair<std::string, std::uint64_t>;
  const FormOffer& offer_;
  FieldCount count_;
};

}  // namespace

std::vector<std::string> Coverage::empty() const {
  std::vector<std::string> found;
  for (const Table& table : tables) {
    const Crossing& crossing = *table.crossing;
    for (std::size_t r = 0; r < table.rows.size(); ++r)
      if (table.rows[r] == 0) found.push_back(crossing.name + ": " + crossing.rows[r].name);
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      if (table.columns[c] == 0) found.push_back(crossing.name + ": " + crossing.columns[c].name);
    for (std::size_t r = 0; r < table.rows.size(); ++r)
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const Cell& cell = table.cells[r][c];
        if (cell.possible && cell.count == 0 && table.rows[r] > 0 && table.columns[c] > 0)
          found.push_back(crossing.name + ": " + crossing.rows[r].name + " x " + crossing.columns[c].name);
      }
  }
  return found;
}

Coverage cover(const Domain& domain, std::uint64_t seed, std::uint64_t count) {
  Coverage coverage;
  coverage.problems = count;
  std::vector<FieldCounter<Problem, Field>> counters;
  for (const Field& field : fields())
    if (is_counted(field)) counters.emplace_back(field);
  std::vector<FormCounter> forms(domain.supports().forms.begin(), domain.supports().forms.end());
  for (const Crossing& crossing : crossings()) {
    const std::size_t rows = crossing.rows.size(), columns = crossing.columns.size();
    Coverage::Table table{&crossing, std::vector<std::uint64_t>(rows), std::vector<std::uint64_t>(columns),
                          std::vector(rows, std::vector<Coverage::Cell>(columns))};
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c)
        table.cells[r][c].possible =
            std::ranges::find(crossing.impossible, std::pair(crossing.rows[r].name, crossing.columns[c].name)) ==
            crossing.impossible.end();
    coverage.tables.push_back(std::move(table));
  }

  std::vector<std::size_t> columns;
  for (std::uint64_t number = 0; number < count; ++number) {
    const Problem problem = draw_problem(domain, seed, number, 1);
    for (auto& counter : counters) counter.count(problem);
    for (FormCounter& counter : forms) counter.count(problem);
    for (Coverage::Table& table : coverage.tables) {
      columns.clear();
      for (std::size_t c = 0; c < table.columns.size(); ++c)
        if (table.crossing->columns[c].holds(problem)) {
          columns.push_back(c);
          ++table.columns[c];
        }
      for (std::size_t r = 0; r < table.rows.size(); ++r) {
        if (!table.crossing->rows[r].holds(problem)) continue;
        ++table.rows[r];
        for (const std::size_t c : columns) ++table.cells[r][c].count;
      }
    }
  }
  for (const auto& counter : counters) coverage.fields.push_back(counter.result());
  for (const FormCounter& counter : forms) coverage.fields.push_back(counter.result());
  return coverage;
}

}  // namespace attest
