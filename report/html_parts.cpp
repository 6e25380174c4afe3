#include "report/html_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/json_text.hpp"
#include "report/html.hpp"
#include "report/html_style.hpp"
#include "report/markup.hpp"
#include "report/record.hpp"
#include "report/text.hpp"

namespace attest::report {

using nlohmann::json;

namespace {

double heat(Count count, Count most) {
  return count == 0 || most == 0 ? 0 : std::log1p(static_cast<double>(count)) / std::log1p(static_cast<double>(most));
}

std::string heat_map(const json& table, Count problems) {
  std::vector<std::string> rows, columns;
  std::map<std::pair<std::string, std::string>, std::pair<Count, bool>> cells;
  Count most = 0;
  const auto place = [](std::vector<std::string>& names, const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const json& cell : table.at("cells")) {
    const auto r = cell.at("row").get<std::string>(), c = cell.at("column").get<std::string>();
    place(rows, r);
    place(columns, c);
    cells[{r, c}] = {cell.at("count").get<Count>(), cell.value("possible", cell.at("count").get<Count>() > 0)};
    most = std::max(most, cell.at("count").get<Count>());
  }
  std::string text = "<table class=\"heat\"><thead><tr><th></th>";
  for (const std::string& c : columns) text += "<th scope=\"col\">" + escaped(c) + "</th>";
  text += "</tr></thead><tbody>\n";
  for (const std::string& r : rows) {
    text += "<tr><th scope=\"row\">" + escaped(r) + "</th>";
    for (const std::string& c : columns) {
      const auto [count, possible] = cells[{r, c}];
      text += !possible ? "<td></td>"
              : count == 0
                  ? "<td class=\"empty\">never</td>"
                  : fmt::format("<td style=\"--h:{:.3f}\">{}</td>", heat(count, most), percent(count, problems));
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table>";
}

}  // namespace

std::string said(const json& value) { return value.is_string() ? value.get<std::string>() : json_text(value); }
std::string said(const json& object, const char* key) {
  return object.contains(key) ? said(object.at(key)) : std::string();
}
Count count_of(const json& object, std::string_view key) {
  return object.contains(key) ? object.at(key).get<Count>() : 0;
}

std::string code(std::string_view text) { return "<code>" + escaped(text) + "</code>"; }
std::string command(std::string_view text) { return "<code class=\"command\">" + escaped(text) + "</code>"; }
std::string row(std::string_view label, const std::string& html) {
  return html.empty() ? std::string() : fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(label), html);
}
std::string scrolled(std::string_view label, const std::string& table) {
  return fmt::format("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">{}</div>\n",
                     escaped(label), table);
}
std::string percent(Count part, Count of) {
  return of == 0 ? "0 %" : fmt::format("{:.3g} %", 100 * static_cast<double>(part) / static_cast<double>(of));
}

std::string joined(const json& list, std::string_view key, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < list.size() && i < most; ++i) {
    const json& one = list.at(i);
    text += (i > 0 ? "; " : "") + (key.empty() ? said(one) : said(one, std::string(key).c_str()));
  }
  if (list.size() > most) text += fmt::format("; and {} more", list.size() - most);
  return text;
}

std::string reasons_html(const json& reasons) {
  std::string text;
  for (const auto& [reason, count] : reasons.items())
    text += fmt::format("<li>{}: {}</li>", escaped(reason), grouped(count.get<Count>()));
  return text.empty() ? "" : "<ul>" + text + "</ul>";
}

std::string place_html(const json& place, std::string_view panel, std::string_view beside) {
  const std::string tensor = said(place, "tensor"), words = said(place, "words"), relation = said(place, "relation");
  const std::string between = words.empty() || relation.empty() ? "" : "; ";
  std::string text = fmt::format("<h4>Wrong elements of {}</h4>\n", escaped(tensor));
  if (!words.empty() || !relation.empty())
    text += fmt::format("<p>{}{}{}</p>\n", escaped(words), between, escaped(relation));
  text += geometry_svg(place, panel);
  if (const std::string errors = errors_svg(place); !errors.empty())
    text += fmt::format("<h4>Errors against {}, {}</h4>\n{}", escaped(beside), escaped(tensor),
                        scrolled(fmt::format("errors against {}", beside), errors));
  return text;
}

std::string laws_html(const json& record) {
  struct Law {
    std::string name, reason;
    Count held = 0, failed = 0, skipped = 0, vacuous = 0;
    std::string largest{};  // for models
  };
  std::vector<Law> laws;
  const bool of_model = is_of_model(record);
  for (const auto& [name, counts] : record.at("verdicts").items()) {
    Law law{name, {}};
    Count most = 0;
    for (const char* kind : {"pass", "warn"}) law.held += count_of(counts, kind);
    for (const std::string_view kind : failure_kinds) law.failed += count_of(counts, kind);
    for (const auto& [sum, key] : {std::pair{&law.skipped, "skip"}, {&law.vacuous, "vacuous"}})
      for (const auto& [reason, count] : counts.at(key).items()) {
        *sum += count.template get<Count>();
        if (count.template get<Count>() > most) {
          most = count.template get<Count>();
          law.reason = reason;
        }
      }
    if (of_model && counts.at("largest_z").is_number())
      law.largest = fmt::format("<td>{:.2g}</td>", counts.at("largest_z").get<double>());
    else if (of_model)
      law.largest = "<td></td>";
    laws.push_back(std::move(law));
  }
  std::ranges::stable_sort(laws, std::ranges::greater(), &Law::failed);
  std::string text = "<section id=\"laws\"><h2>Law by law</h2>\n";
  std::string table = fmt::format(
      "<table><thead><tr><th scope=\"col\">law</th><th scope=\"col\">held</th><th scope=\"col\">failed</th><th "
      "scope=\"col\">skipped</th><th scope=\"col\">vacuous</th>{}<th scope=\"col\" class=\"words\">not judged mostly "
      "because</th></tr></thead><tbody>\n",
      of_model ? "<th scope=\"col\">largest deviation of what held</th>" : "");
  for (const Law& law : laws)
    table += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td{}>{}</td><td>{}</td><td>{}</td>{}<td class=\"words "
        "soft\">{}</td></tr>\n",
        escaped(law.name), grouped(law.held), law.failed > 0 ? " class=\"bad\"" : "", grouped(law.failed),
        grouped(law.skipped), grouped(law.vacuous), law.largest, escaped(law.reason));
  return text + scrolled("laws", table + "</tbody></table>") + "</section>\n";
}

std::string drawn_html(const json& record) {
  std::string text = "<section id=\"drawn\"><h2>What was drawn</h2>\n";
  if (!record.contains("coverage")) return text + "<p>Not on record for this campaign.</p></section>\n";
  const json& coverage = record.at("coverage");
  const Count problems = count_of(coverage, "problems");
  text += fmt::format("<p>Of {}{}.", counted(problems, "problem"),
                      is_of_model(record) ? "" : ", before any was drawn again in place of what is understood");
  if (!coverage.at("tables").empty())
    text += fmt::format(
        " A cell is the share of problems in both regions, its colour stronger where there are more; {} a pair that "
        "these problems have not met.",
        is_of_model(record) ? "an empty one is" : "<em>never</em> is");
  text += "</p>\n";
  bool first = true;
  for (const json& table : coverage.at("tables")) {
    const std::string name = said(table, "name");
    text += fmt::format("<details{}><summary>{}</summary>{}</details>\n", first ? " open" : "", escaped(name),
                        scrolled(name, heat_map(table, problems)));
    first = false;
  }
  text += "<h3>Field by field</h3>\n<div class=\"fields\">\n";
  for (const json& field : coverage.at("fields")) {
    Count most = 0;
    for (const json& value : field.at("values")) most = std::max(most, value.at("count").get<Count>());
    text += fmt::format("<div><h4>{}</h4><div class=\"bars\">", escaped(said(field, "name")));
    for (const json& value : field.at("values"))
      if (const Count count = value.at("count").get<Count>(); count > 0)
        text += fmt::format(
            "<span>{}</span><span><span class=\"bar\" style=\"width:{:.1f}%\"></span></span><span>{}</span>",
            escaped(said(value, "value")), 100 * static_cast<double>(count) / static_cast<double>(most),
            percent(count, problems));
    text += "</div></div>\n";
  }
  return text + "</div></section>\n";
}

std::string page(std::string_view subject, const std::string& header, const std::string& sections) {
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";
  text += fmt::format(
      "<title>attest: {}</title>\n<style>{}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#defects\">To the "
      "defects</a>\n{}",
      escaped(subject), html_style, header);
  text +=
      "<nav aria-label=\"Sections\"><ul><li><a href=\"#defects\">Defects</a></li><li><a "
      "href=\"#laws\">Laws</a></li><li><a href=\"#drawn\">Drawn</a></li><li><a href=\"#given-up\">Given "
      "up</a></li></ul></nav>\n<main>\n";
  return text + sections +
         "</main>\n<footer class=\"soft\">attest: could a correct implementation of what was promised have produced "
         "these numbers?</footer>\n</body>\n</html>\n";
}

}  // namespace attest::report
