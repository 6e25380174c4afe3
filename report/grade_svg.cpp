#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/grade.hpp"

namespace attest::report {
namespace {

using engine::FaultGrade;
using engine::Grade;
using engine::GradeOptions;
using engine::LawPower;
using engine::RuleTable;

constexpr int cell = 14, step = 15, gap = 10, left = 150, top = 170, margin = 12;

// Problems to the first detection, three steps to a decade and a half; the colours of viridis, dark for early.
struct Shade {
  double most;
  std::string_view label, colour;
};
constexpr std::array shades{Shade{1, "1", "#440154"},           Shade{3, "3", "#482878"},
                            Shade{10, "10", "#3e4a89"},         Shade{30, "30", "#31688e"},
                            Shade{100, "100", "#26828e"},       Shade{300, "300", "#1f9e89"},
                            Shade{1000, "1,000", "#35b779"},    Shade{3000, "3,000", "#6ece58"},
                            Shade{10'000, "10,000", "#b5de2b"}, Shade{HUGE_VAL, "more", "#fde725"}};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

// The paths of all operations.
struct Paths {
  std::string labels, names, never, idle, bound;
  std::array<std::string, shades.size()> coloured{};
};

// The rows of one operation.
class Block {
 public:
  Block(const Grade& grade, Paths& paths, int first_row) : grade_(grade), paths_(paths), top_(first_row) {}

  void draw() {
    column_ = left;
    for (std::size_t row = 0; row < grade_.faults.size(); ++row) {
      const std::string& name = grade_.faults[row].fault.name;
      paths_.names += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 6,
                                  y_of(row) + cell - 3, escaped(name.substr(name.find(':') + 1)));
    }
    head("default campaign");
    for (std::size_t row = 0; row < grade_.faults.size(); ++row) campaign(row);
    end_group("");
    draw_laws();
    for (const RuleTable& table : grade_.rules) draw_rules(table);
  }
  [[nodiscard]] int bottom() const { return y_of(grade_.faults.size()); }
  [[nodiscard]] int right() const { return column_; }

 private:
  void head(std::string_view name) {
    const int x = column_ + cell - 3;
    paths_.labels +=
        fmt::format("<text transform=\"translate({},{}) rotate(-90)\">{}</text>\n", x, top_ - 5, escaped(name));
  }
  void end_column() { column_ += step; }
  // Ends a group of columns and names it.
  void end_group(std::string_view name) {
    end_column();
    end_columns(name, column_ - step);
  }
  void end_columns(std::string_view name, int first) {
    if (!name.empty())
      paths_.labels +=
          fmt::format("<text class=\"g\" x=\"{}\" y=\"{}\">{}</text>\n", first, top_ - top + margin + 8, escaped(name));
    column_ += gap;
  }
  void square(std::string& path, std::size_t row, int size) const {
    const int inset = (cell - size) / 2;
    path += fmt::format("M{} {}h{}v{}h-{}z", column_ + inset, y_of(row) + inset, size, size, size);
  }
  [[nodiscard]] int y_of(std::size_t row) const { return top_ + static_cast<int>(row) * step; }
  void colour(std::size_t row, double first) {
    const auto shade = std::ranges::find_if(shades, [&](const Shade& s) { return first <= s.most; });
    square(paths_.coloured[static_cast<std::size_t>(shade - shades.begin())], row, cell);
  }
  void empty(std::size_t row) { square(paths_.never, row, cell); }

  void campaign(std::size_t row) {
    std::vector<double> problems;
    for (const engine::Hunt& hunt : grade_.faults[row].hunts)
      problems.push_back(hunt.found ? static_cast<double>(hunt.drawn) : HUGE_VAL);
    const double middle = engine::median(problems);
    std::isfinite(middle) ? colour(row, middle) : empty(row);
  }

  void draw_laws() {
    const int first = column_;
    if (grade_.faults.empty() || grade_.faults.front().laws.empty()) return;
    for (std::size_t law = 0; law < grade_.faults.front().laws.size(); ++law) {
      head(engine::all_laws()[grade_.faults.front().laws[law].law].name);
      for (std::size_t row = 0; row < grade_.faults.size(); ++row) {
        const LawPower& power = grade_.faults[row].laws[law];
        if (power.first_beyond_bound) {
          colour(row, static_cast<double>(*power.first_beyond_bound));
        } else {
          empty(row);
          if (power.first) square(paths_.bound, row, 4);
        }
      }
      end_column();
    }
    end_columns("attest's laws, each alone", first);
  }

  void draw_rules(const RuleTable& table) {
    const int first = column_;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      head(table.columns[c].name);
      for (std::size_t row = 0; row < table.faults.size(); ++row) {
        const auto& found = table.faults[row].columns[c].first_at_zero;
        if (found)
          colour(row, static_cast<double>(*found));
        else if (table.faults[row].acts == 0)
          square(paths_.idle, row, cell);
        else
          empty(row);
      }
      end_column();
    }
    end_columns("rules, " + table.set, first);
  }

  const Grade& grade_;
  Paths& paths_;
  const int top_;
  int column_ = 0;
};

std::string legend(int y, bool laws) {
  std::string text =
      fmt::format("<text x=\"{}\" y=\"{}\">first detected within so many problems</text>\n", left, y - 6);
  int x = left;
  const auto entry = [&](std::string_view style, std::string_view label, int width) {
    text += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}/><text x=\"{}\" y=\"{}\">{}</text>\n", x,
                        y, cell, cell, style, x + cell + 4, y + cell - 3, label);
    x += width;
  };
  for (const Shade& shade : shades) entry(fmt::format("fill=\"{}\"", shade.colour), shade.label, 62);
  x = left;
  y += 20;
  entry("class=\"n\"", "never", 62);
  if (laws) {
    text += fmt::format("<rect class=\"n\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", x, y, cell, cell);
    text += fmt::format("<path class=\"b\" d=\"M{} {}h4v4h-4z\"/>", x + 5, y + 5);
    text += fmt::format("<text x=\"{}\" y=\"{}\">only where the policy bound detects it too</text>\n", x + cell + 4,
                        y + cell - 3);
    x += 270;
    entry("class=\"i\"", "the fault changes no result", 0);
    text += fmt::format(
        "<text x=\"{}\" y=\"{}\">The rules of others are set to no false alarm on the same cases; attest's own "
        "column is as "
        "it is.</text>\n",
        left, y + 36);
  }
  return text;
}

}  // namespace

std::string grade_svg(std::span<const Graded> all) {
  Paths paths;
  int right = 0, bottom = 0;
  std::string interrupted;
  for (const Graded& one : all) {
    Block block(one.grade, paths, bottom + (bottom > 0 ? gap : 0) + top);
    block.draw();
    if (all.size() > 1)
      paths.names += fmt::format("<text class=\"g\" x=\"{}\" y=\"{}\">{}</text>\n", margin,
                                 bottom + (bottom > 0 ? gap : 0) + margin + 8, escaped(one.options.op->name()));
    bottom = block.bottom();
    right = std::max(right, block.right());
    if (interrupted.empty()) interrupted = interrupted_text(one.grade, one.options);
  }
  const int width = std::max(right + margin, left + (interrupted.empty() ? 660 : 960));
  const int height = bottom + (interrupted.empty() ? 90 : 110);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n"
      "<title>attest grade: planted faults, and after how many problems each law and rule detects them</title>\n"
      "<style>text{{font:11px system-ui,sans-serif;fill:#1f2328}}.g{{font-weight:600}}.p{{fill:#fff}}"
      ".n{{fill:#fff;stroke:#d0d7de;stroke-width:1}}.b{{fill:#8c959f}}.i{{fill:#d8dee4}}"
      "@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.p{{fill:#0d1117}}}}</style>\n"
      "<rect class=\"p\" width=\"{0}\" height=\"{1}\"/>\n",
      width, height);
  text += paths.names + paths.labels;
  text += fmt::format("<path class=\"n\" d=\"{}\"/>\n<path class=\"i\" d=\"{}\"/>\n<path class=\"b\" d=\"{}\"/>\n",
                      paths.never, paths.idle, paths.bound);
  for (std::size_t i = 0; i < shades.size(); ++i)
    if (!paths.coloured[i].empty())
      text += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", shades[i].colour, paths.coloured[i]);
  text += legend(bottom + 24, std::ranges::any_of(all, [](const Graded& one) { return one.options.paired > 0; }));
  if (!interrupted.empty())
    text += fmt::format("<text class=\"g\" x=\"{}\" y=\"{}\">{}</text>\n", left, bottom + 100, escaped(interrupted));
  return text + "</svg>\n";
}

}  // namespace attest::report
