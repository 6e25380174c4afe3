#include "generators/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "generators/draw.hpp"

namespace attest {
namespace {

// ---- one field ---------------------------------------------------------------------------------------------------------

// Octaves with their upper ends: -1, 0, 1, 2, 3..4, 5..8, and so on. The last one has all that is larger.
constexpr std::size_t most_octaves = 24;
std::size_t octave_of(Index n) {
  if (n < 1) return static_cast<std::size_t>(n + 1);
  return std::min<std::size_t>(2 + static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(n - 1))),
                               most_octaves - 1);
}
std::string octave_name(std::size_t octave) {
  if (octave < 4) return std::to_string(static_cast<Index>(octave) - 1);
  const Index end = Index{1} << (octave - 2);
  if (octave == most_octaves - 1) return fmt::format(">={}", end / 2 + 1);
  return fmt::format("{}..{}", end / 2 + 1, end);
}

constexpr std::pair<int, const char*> magnitudes[] = {{-16, "<2^-16"}, {-4, "<1/16"}, {0, "<1"},
                                                      {4, "<16"},      {16, "<2^16"}, {1024, ">=2^16"}};
constexpr std::size_t real_regions = 4 + std::size(magnitudes);

std::size_t region_of(std::optional<double> x) {
  if (!x) return 0;
  if (*x == 0) return 1;
  if (*x < 0) return 2;
  if (*x == 1) return 3;
  std::size_t region = 4;
  for (const auto& [exponent, name] : magnitudes) {
    if (std::ilogb(*x) < exponent) break;
    ++region;
  }
  return std::min(region, real_regions - 1);
}
std::string real_name(std::size_t region) {
  constexpr const char* first[] = {"default", "0", "<0", "1"};
  return region < 4 ? first[region] : magnitudes[region - 4].second;
}

// Labels, flags and small integers one by one, other integers by octave.
class FieldCounter {
 public:
  explicit FieldCounter(const Field& field)
      : field_(field), octaves_(field.kind == FieldKind::integer && field.hi > 16) {
    counts_.resize(field.kind == FieldKind::real ? real_regions
                   : octaves_                    ? octave_of(field.hi) + 1
                                                 : static_cast<std::size_t>(field.hi) + 1);
    if (octaves_) missing_.insert(field.edges.begin(), field.edges.end());
  }

  void count(const Problem& problem) {
    if (field_.kind == FieldKind::real) return void(++counts_[region_of(field_.get_real(problem))]);
    const Index value = field_.get(problem);
    ++counts_[octaves_ ? octave_of(value) : static_cast<std::size_t>(value)];
    missing_.erase(value);
  }

  [[nodiscard]] FieldCount result() const {
    FieldCount out{std::string(field_.name), !field_.labels.empty(), {}, {missing_.begin(), missing_.end()}};
    for (std::size_t i = 0; i < counts_.size(); ++i) out.values.emplace_back(name(i), counts_[i]);
    return out;
  }

 private:
  [[nodiscard]] std::string name(std::size_t i) const {
    if (field_.kind == FieldKind::real) return real_name(i);
    if (octaves_) return octave_name(i);
    return field_.labels.empty() ? std::to_string(i) : std::string(field_.labels[i]);
  }

  const Field& field_;
  const bool octaves_;
  std::vector<std::uint64_t> counts_;
  std::set<Index> missing_;
};

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

// Origins belong to the shrinker, a seed has no regions.
bool is_counted(const Field& field) { return field.kind != FieldKind::seed && field.group != FieldGroup::origin; }

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
  std::vector<FieldCounter> counters;
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
    for (FieldCounter& counter : counters) counter.count(problem);
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
  for (const FieldCounter& counter : counters) coverage.fields.push_back(counter.result());
  for (const FormCounter& counter : forms) coverage.fields.push_back(counter.result());
  return coverage;
}

}  // namespace attest
