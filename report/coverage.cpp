#include "report/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/text.hpp"

namespace attest::report {
namespace {

constexpr std::size_t line_width = 80, field_width = 16;

// Percent with two digits or so: "62", "7.4", "0.38"; "+" below 0.005.
std::string percent_of(std::uint64_t count, std::uint64_t of) {
  const double percent = 100 * static_cast<double>(count) / static_cast<double>(of);
  if (count == 0) return "-";
  if (percent < 0.005) return "+";
  return fmt::format("{:.{}f}", percent, percent < 1 ? 2 : percent < 10 ? 1 : 0);
}

// `items` behind `name`, three spaces apart, broken into lines.
std::string in_lines(std::string_view name, const std::vector<std::string>& items) {
  std::string text, line = fmt::format("{:<{}}", name, field_width - 3);
  for (const std::string& item : items) {
    if (line.size() + item.size() + 3 > line_width) {
      text += line + "\n";
      line = std::string(field_width - 3, ' ');
    }
    line += "   " + item;
  }
  return text + line + "\n";
}

std::string field_text(const FieldCount& field, std::uint64_t problems) {
  const bool label = field.labels;
  std::vector<std::string> items;
  for (const auto& [value, count] : field.values)
    if (label || count > 0) items.push_back(value + " " + percent_of(count, problems));
  std::string text = in_lines(field.name, items);
  if (field.missing_edges.empty()) return text;
  std::vector<std::string> edges;
  for (const Index edge : field.missing_edges) edges.push_back(std::to_string(edge));
  return text + in_lines("  never at", edges);
}

std::string table_text(const Coverage::Table& table, std::uint64_t problems) {
  const Crossing& crossing = *table.crossing;
  std::size_t first = 0;
  for (const Region& row : crossing.rows) first = std::max(first, row.name.size());
  std::string text = crossing.name + "\n" + std::string(first + 2, ' ');
  const auto width = [&](std::size_t c) { return std::max<std::size_t>(crossing.columns[c].name.size(), 5) + 2; };
  for (std::size_t c = 0; c < crossing.columns.size(); ++c)
    text += fmt::format("{:>{}}", crossing.columns[c].name, width(c));
  for (std::size_t r = 0; r < crossing.rows.size(); ++r) {
    text += fmt::format("\n  {:<{}}", crossing.rows[r].name, first);
    for (std::size_t c = 0; c < crossing.columns.size(); ++c) {
      const Coverage::Cell& cell = table.cells[r][c];
      const bool missing = cell.count == 0 && table.rows[r] > 0 && table.columns[c] > 0;
      text += fmt::format("{:>{}}",
                          !cell.possible ? ""
                          : missing      ? "EMPTY"
                                         : percent_of(cell.count, problems),
                          width(c));
    }
  }
  return text + "\n";
}

}  // namespace

std::string coverage_text(const Coverage& coverage) {
  std::string text = "Share of the problems in percent; + is less than 0.005, - is never.\n\n";
  for (const FieldCount& field : coverage.fields) text += field_text(field, coverage.problems);
  for (const Coverage::Table& table : coverage.tables) text += "\n" + table_text(table, coverage.problems);
  text += "\n";
  const std::vector<std::string> empty = coverage.empty();
  if (empty.empty()) return text + "Every region of every table was drawn.\n";
  text += fmt::format("Never drawn, of the tables above ({}):\n", grouped(empty.size()));
  for (const std::string& region : empty) text += "  " + region + "\n";
  return text;
}

nlohmann::ordered_json coverage_json(const Coverage& coverage) {
  using nlohmann::ordered_json;
  ordered_json fields = ordered_json::array(), tables = ordered_json::array();
  for (const FieldCount& field : coverage.fields) {
    ordered_json values = ordered_json::array();
    for (const auto& [value, count] : field.values) values.push_back({{"value", value}, {"count", count}});
    fields.push_back({{"name", field.name}, {"values", values}, {"missing_edges", field.missing_edges}});
  }
  for (const Coverage::Table& table : coverage.tables) {
    ordered_json cells = ordered_json::array();
    for (std::size_t r = 0; r < table.rows.size(); ++r)
      for (std::size_t c = 0; c < table.columns.size(); ++c)
        cells.push_back({{"row", table.crossing->rows[r].name},
                         {"column", table.crossing->columns[c].name},
                         {"count", table.cells[r][c].count},
                         {"possible", table.cells[r][c].possible}});
    tables.push_back({{"name", table.crossing->name}, {"cells", cells}});
  }
  return {{"fields", fields}, {"tables", tables}, {"empty", coverage.empty()}};
}

}  // namespace attest::report
