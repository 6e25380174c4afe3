#include "report/html_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/json_text.hpp"
#include "models/laws.hpp"
#include "ops/op.hpp"
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
std::string key_html(std::string_view key) { return "<span class=\"key\">" + code(key) + "</span>"; }
std::string row(std::string_view label, const std::string& html) {
  return html.empty() ? std::string() : fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(label), html);
}
std::string waiver_rows(const json& defect) {
  std::string rows;
  for (const json& waiver : defect.value("waivers", json::array()))
    rows += row("waiver",
                escaped(fmt::format("until {}{}: {}", said(waiver, "until"),
                                    waiver.value("over", false) ? ", which is over" : "", said(waiver, "reason"))));
  return rows;
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

namespace {

struct LawCounts {
  std::string name, reason;  // reason: why it mostly judged nothing
  Count held = 0, failed = 0, skipped = 0, vacuous = 0;
  json largest{};  // of models: the largest deviation of what held
};

// Laws in the order of the record, those that failed most first.
std::vector<LawCounts> laws_of(const json& record) {
  std::vector<LawCounts> laws;
  for (const auto& [name, counts] : record.at("verdicts").items()) {
    LawCounts law{name, {}};
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
    if (is_of_model(record)) law.largest = counts.at("largest_z");
    laws.push_back(std::move(law));
  }
  std::ranges::stable_sort(laws, std::ranges::greater(), &LawCounts::failed);
  return laws;
}

// Lengths of one value of a field as coverage counts them: "7" and "5..8"; nothing for a name.
std::optional<std::pair<long long, long long>> lengths_of(const std::string& value) {
  long long low = 0, high = 0;
  const char *begin = value.data(), *end = begin + value.size();
  auto read = std::from_chars(begin, end, low);
  if (read.ec != std::errc() || read.ptr == begin) return std::nullopt;
  if (read.ptr == end) return std::pair{low, low};
  if (!std::string_view(read.ptr, end).starts_with("..")) return std::nullopt;
  read = std::from_chars(read.ptr + 2, end, high);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return std::pair{low, high};
}

}  // namespace

std::string law_sentence(const std::string& law, bool of_model) {
  for (const models::Law& one : models::all_laws())
    if (of_model && one.name == law) return std::string(one.says);
  const ops::Law* known = ops::find_law(law);
  return known != nullptr ? std::string(known->doc) : law;
}

std::string sizes_drawn(const json& record) {
  std::string text;
  if (!record.contains("coverage")) return text;
  for (const json& field : record.at("coverage").at("fields")) {  // dimensions come before all else
    std::optional<std::pair<long long, long long>> all;
    for (const json& value : field.at("values")) {
      const auto lengths = lengths_of(said(value, "value"));
      if (!lengths) return text;
      if (count_of(value, "count") == 0) continue;
      all = {std::min(all ? all->first : lengths->first, lengths->first),
             std::max(all ? all->second : lengths->second, lengths->second)};
    }
    if (!all || all->first < 0) continue;
    text +=
        fmt::format("{}{} {}{}", text.empty() ? "" : ", ", said(field, "name"), grouped(static_cast<Count>(all->first)),
                    all->first == all->second ? "" : " to " + grouped(static_cast<Count>(all->second)));
  }
  return text;
}

std::string happened(const json& finding) {
  const json& witness = finding.at("witness");
  const std::string verdict = said(finding, "verdict"), reason = said(finding, "reason");
  if (!witness.is_object()) return happened(verdict, "", "") + (reason.empty() ? "" : ": " + reason);
  return happened(verdict, said(witness, "wrong"), said(witness, "tensor"));
}

std::string witness_text(const json& finding) {
  if (!finding.contains("witness") || !finding.at("witness").is_object()) return {};
  const json& w = finding.at("witness");
  std::string where = said(w, "tensor");
  if (w.contains("index") && where != "T" && where != "R") {
    json index = w.at("index");
    if (where == "lse" && index.size() == 4) index.erase(3);
    where += said(index);
  }
  std::string text = fmt::format("{} = {}, expected {}", where, said(w, "got"), said(w, "expected"));
  if (w.contains("lo")) text += fmt::format(", permitted {} .. {}", said(w, "lo"), said(w, "hi"));
  if (w.contains("ratio") && w.at("ratio").is_number())
    text += fmt::format(" ({:.3g} x the permitted distance)", w.at("ratio").get<double>());
  return text;
}

std::string finding_line(const json& finding) {
  const json& witness = finding.at("witness");
  if (witness.is_object() && witness.contains("tensor")) return happened(finding) + ": " + witness_text(finding);
  const std::string reason = said(finding, "reason");
  return reason.empty() ? said(finding, "bucket") : reason;
}

std::string contents_html(const std::vector<Headline>& defects) {
  if (defects.size() < 2) return {};
  std::string text = "<ol class=\"contents\">\n";
  for (std::size_t i = 0; i < defects.size(); ++i)
    text += fmt::format("<li><a href=\"#defect-{}\">{}</a> <span class=\"soft\">{}</span></li>\n", i + 1,
                        defects[i].html, escaped(defects[i].count));
  return text + "</ol>\n";
}

std::string held_html(const json& record) {
  constexpr std::size_t most_named = 5;
  std::vector<LawCounts> laws = laws_of(record), silent;
  std::erase_if(laws, [&](const LawCounts& law) {
    if (law.held + law.failed > 0) return false;
    silent.push_back(law);
    return true;
  });
  std::ranges::stable_sort(laws, {}, &LawCounts::held);
  std::string text = "<p>None was found.</p>\n<dl>\n";
  text +=
      row("drawn", escaped(counted(count_of(record, "cases"), "problem")) + ", <a href=\"#drawn\">of these kinds</a>");
  text += row("sizes", escaped(sizes_drawn(record)));
  text += row("judged", escaped(fmt::format("{} by {}", counted(count_of(record, "elements"), "output element"),
                                            counted(laws.size(), "law"))));
  std::string least;
  for (std::size_t i = 0; i < std::min(most_named, laws.size()); ++i)
    least += fmt::format("<li>{}: {}</li>", code(laws[i].name), escaped(counted(laws[i].held, "time")));
  if (!least.empty()) text += row("judged least", "<ul>" + least + "</ul>");
  std::string nothing;
  for (const LawCounts& law : silent)
    nothing += fmt::format("<li>{}{}</li>", code(law.name), law.reason.empty() ? "" : ": " + escaped(law.reason));
  if (!nothing.empty()) text += row("judged nothing", "<ul>" + nothing + "</ul>");
  return text + row("not judged", "<a href=\"#given-up\">what was given up</a>") + "</dl>\n";
}

std::string run_html(const json& record, const std::string& further) {
  const json run = record.value("run", json::object());
  const std::string who = said(run, "user");
  std::string when = said(run, "ended");
  if (when.size() == std::string_view("2026-11-29T07:42:10Z").size())
    when = when.substr(0, 10) + " " + when.substr(11, 8) + " UTC";
  std::string machine = said(run, "system");
  if (const std::string processor = said(run, "processor"); !processor.empty()) machine += "; " + processor;
  std::string text = row("ended", escaped(when)) + row("by", escaped(who));
  if (run.contains("command")) text += row("command", command(said(run, "command")));
  text += further + row("libraries", escaped(said(run, "libraries"))) + row("attest", escaped(said(run, "attest"))) +
          row("machine", escaped(machine)) + row("seed", escaped(said(record, "seed")));
  return "<details class=\"run\" open><summary>This run</summary>\n<dl>\n" + text + "</dl></details>\n";
}

std::string laws_html(const json& record) {
  const bool of_model = is_of_model(record);
  std::string table = fmt::format(
      "<table><thead><tr><th scope=\"col\">law</th><th scope=\"col\">held</th><th scope=\"col\">failed</th><th "
      "scope=\"col\">skipped</th><th scope=\"col\">vacuous</th>{}<th scope=\"col\" class=\"words\">what it "
      "says</th></tr></thead><tbody>\n",
      of_model ? "<th scope=\"col\">largest deviation of what held</th>" : "");
  for (const LawCounts& law : laws_of(record)) {
    const std::string largest = !of_model                 ? ""
                                : law.largest.is_number() ? fmt::format("<td>{:.2g}</td>", law.largest.get<double>())
                                                          : "<td></td>";
    const std::string reason =
        law.reason.empty() ? "" : "<br><span class=\"soft\">not judged: " + escaped(law.reason) + "</span>";
    table += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td{}>{}</td><td>{}</td><td>{}</td>{}<td "
        "class=\"words\">{}{}</td></tr>\n",
        escaped(law.name), grouped(law.held), law.failed > 0 ? " class=\"bad\"" : "", grouped(law.failed),
        grouped(law.skipped), grouped(law.vacuous), largest, escaped(law_sentence(law.name, of_model)), reason);
  }
  return "<section id=\"laws\"><h2>Law by law</h2>\n<p class=\"soft\">A law is skipped where it does not apply, and "
         "vacuous where nothing could be decided.</p>\n" +
         scrolled("laws", table + "</tbody></table>") + "</section>\n";
}

std::string drawn_html(const json& record) {
  std::string text = "<section id=\"drawn\"><h2>What was drawn</h2>\n";
  if (!record.contains("coverage")) return text + "<p>Not on record for this campaign.</p></section>\n";
  const json& coverage = record.at("coverage");
  const Count problems = count_of(coverage, "problems");
  text += fmt::format("<p>Of {}{}.", counted(problems, "problem"),
                      is_of_model(record) ? "" : ", before any was drawn again in place of what is understood");
  if (const std::string sizes = sizes_drawn(record); !sizes.empty()) text += escaped(" Sizes: " + sizes + ".");
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
