#include "report/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "report/html_style.hpp"
#include "report/markup.hpp"
#include "report/record.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using nlohmann::json;
using Count = std::uint64_t;

// A value as a reader would say it.
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
// A table may be wider than a phone: it scrolls by itself, by keyboard too.
std::string scrolled(std::string_view label, const std::string& table) {
  return fmt::format("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">{}</div>\n",
                     escaped(label), table);
}
std::string percent(Count part, Count of) {
  return of == 0 ? "0 %" : fmt::format("{:.3g} %", 100 * static_cast<double>(part) / static_cast<double>(of));
}

std::string witness_html(const json& finding) {
  const json& w = finding.at("witness");
  if (!w.is_object()) return {};
  std::string where = said(w, "tensor");
  if (w.contains("index") && where != "T" && where != "share of T") {
    json index = w.at("index");
    if (where == "lse" && index.size() == 4) index.erase(3);
    where += said(index);
  }
  std::string text = code(fmt::format("{} = {}", where, said(w, "got"))) + ", expected " + code(said(w, "expected"));
  if (w.contains("lo")) text += ", permitted " + code(said(w, "lo") + " .. " + said(w, "hi"));
  if (w.contains("ratio") && w.at("ratio").is_number())
    text += escaped(fmt::format(" ({:.3g} x the permitted distance)", w.at("ratio").get<double>()));
  return text;
}

std::string condition_html(const json& defect) {
  if (!defect.contains("explained")) return {};
  const json& e = defect.at("explained");
  const std::string predicate = said(e, "predicate");
  if (predicate.empty()) return "nothing that the problems say tells those that fail from the others";
  std::string text =
      code(predicate) + escaped(fmt::format(": {} fails {} of {}", said(e, "property"), grouped(count_of(e, "failing")),
                                            grouped(count_of(e, "asked"))));
  if (e.contains("elsewhere"))
    text += escaped(fmt::format(", elsewhere {} of {}", grouped(count_of(e, "failing_elsewhere")),
                                grouped(count_of(e, "elsewhere"))));
  return text;
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

std::string explanation_html(const json& defect) {
  if (!defect.contains("explanation")) return {};
  const json& e = defect.at("explanation");
  std::string text = "<dl>\n";
  if (e.contains("hypotheses") && !e.at("hypotheses").empty()) {
    const json& first = e.at("hypotheses").at(0);
    text += row("looks like", code(said(first, "name")) + " " + escaped(said(first, "doc")));
  }
  if (e.contains("fits")) text += row("fits", escaped(joined(e.at("fits"), "words", 5)));
  if (e.contains("stage")) text += row("stage", escaped(said(e, "stage")));
  text += "</dl>\n";
  for (const json& place : e.contains("where") ? e.at("where") : json::array()) {
    text += fmt::format("<h4>Wrong elements of {}</h4>\n", escaped(said(place, "tensor")));
    const std::string words = said(place, "words"), relation = said(place, "relation");
    const std::string between = words.empty() || relation.empty() ? "" : "; ";
    text += fmt::format("<p>{}{}{}</p>\n{}", escaped(words), between, escaped(relation), geometry_svg(place));
    if (const std::string errors = errors_svg(place); !errors.empty())
      text += fmt::format("<h4>Errors against the bound, {}</h4>\n{}", escaped(said(place, "tensor")),
                          scrolled("errors against the bound", errors));
  }
  return text;
}

const json* finding_of(const json& record, const std::string& bucket) {
  for (const json& finding : record.at("findings"))
    if (finding.at("bucket").get<std::string>() == bucket) return &finding;
  return nullptr;
}

std::string finding_rows(const json& finding) {
  std::string text = row("problem", code(said(finding, "problem")));
  if (finding.contains("after")) text += row("after", code(said(finding.at("after"))));
  text += row("said", escaped(said(finding, "reason"))) + row("witness", witness_html(finding));
  std::string size =
      fmt::format("{} multiply-adds, {}", grouped(count_of(finding, "multiply_adds")),
                  finding.value("minimal", false)
                      ? fmt::format("1-minimal after {} subject calls", grouped(count_of(finding, "subject_calls")))
                      : "not minimal");
  if (finding.contains("shown"))
    size +=
        fmt::format("; shows in {} of {} runs", said(finding.at("shown"), "seen"), said(finding.at("shown"), "runs"));
  text += row("size", escaped(size));
  if (finding.contains("also") && !finding.at("also").empty())
    text += row("also fails", escaped(joined(finding.at("also"), "", 12)));
  return text + row("again", command(said(finding, "rerun")));
}

std::string defect_html(const json& record, const json& defect, std::size_t number) {
  const bool known = defect.value("known", false);
  const std::string bucket = defect.at("buckets").at(0).get<std::string>();
  std::string text = fmt::format("<article class=\"card defect\" id=\"defect-{}\">\n<h3>{}. {}{}</h3>\n", number,
                                 number, escaped(bucket), known ? " <span class=\"soft\">(known)</span>" : "");
  text += fmt::format("<p class=\"soft\">{} failing problems, {} {}</p>\n<dl>\n", grouped(count_of(defect, "failures")),
                      defect.at("buckets").size(), defect.at("buckets").size() == 1 ? "bucket" : "buckets");
  text += row("condition", condition_html(defect));
  const json* finding = finding_of(record, bucket);
  if (finding != nullptr) text += finding_rows(*finding);
  text += row("reproducer", code(said(defect, "reproducer")));
  if (defect.contains("effective"))
    text += row("precision", escaped("asked for " + said(defect.at("effective"), "requested") + "; fits " +
                                     joined(defect.at("effective").at("fits"), "", 4)));
  text += "</dl>\n" + explanation_html(defect);
  if (finding != nullptr && finding->contains("neighbours") && !finding->at("neighbours").empty())
    text += "<details><summary>Neighbours that pass</summary><p>" + escaped(joined(finding->at("neighbours"), "", 60)) +
            "</p></details>\n";
  if (defect.at("buckets").size() > 1) {
    text += "<details><summary>All its buckets</summary><ul>";
    for (const json& other : defect.at("buckets")) text += "<li>" + code(said(other)) + "</li>";
    text += "</ul></details>\n";
  }
  return text + "</article>\n";
}

std::string defects_html(const json& record) {
  std::string text = "<section id=\"defects\"><h2>Defects</h2>\n";
  const json& defects = record.at("defects");
  for (std::size_t i = 0; i < defects.size(); ++i) text += defect_html(record, defects.at(i), i + 1);
  if (defects.empty() && record.at("findings").empty()) text += "<p>None was found.</p>\n";
  if (defects.empty())
    for (const json& finding : record.at("findings"))
      text += fmt::format("<article class=\"card finding\"><h3>{}</h3>\n<dl>\n{}{}</dl></article>\n",
                          escaped(said(finding, "bucket")), row("condition", condition_html(finding)),
                          finding_rows(finding));
  return text + "</section>\n";
}

std::string laws_html(const json& record) {
  struct Law {
    std::string name, reason;
    Count held = 0, failed = 0, skipped = 0, vacuous = 0;
  };
  std::vector<Law> laws;
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
    laws.push_back(std::move(law));
  }
  std::ranges::stable_sort(laws, std::ranges::greater(), &Law::failed);
  std::string text = "<section id=\"laws\"><h2>Law by law</h2>\n";
  std::string table =
      "<table><thead><tr><th scope=\"col\">law</th><th scope=\"col\">held</th><th scope=\"col\">failed</th><th "
      "scope=\"col\">skipped</th><th scope=\"col\">vacuous</th><th scope=\"col\" class=\"words\">not judged mostly "
      "because</th></tr></thead><tbody>\n";
  for (const Law& law : laws)
    table += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td{}>{}</td><td>{}</td><td>{}</td><td class=\"words "
        "soft\">{}</td></tr>\n",
        escaped(law.name), grouped(law.held), law.failed > 0 ? " class=\"bad\"" : "", grouped(law.failed),
        grouped(law.skipped), grouped(law.vacuous), escaped(law.reason));
  return text + scrolled("laws", table + "</tbody></table>") + "</section>\n";
}

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
    cells[{r, c}] = {cell.at("count").get<Count>(), cell.at("possible").get<bool>()};
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

std::string drawn_html(const json& record) {
  std::string text = "<section id=\"drawn\"><h2>What was drawn</h2>\n";
  if (!record.contains("coverage")) return text + "<p>Not on record for this campaign.</p></section>\n";
  const json& coverage = record.at("coverage");
  const Count problems = count_of(coverage, "problems");
  text +=
      fmt::format("<p>Of {} problems, before any was drawn again in place of what is understood.", grouped(problems));
  if (!coverage.at("tables").empty())
    text +=
        " A cell is the share of problems in both regions, its colour stronger where there are more; <em>never</em> is "
        "a pair that these problems have not met.";
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

std::string reasons_html(const json& reasons) {
  std::string text;
  for (const auto& [reason, count] : reasons.items())
    text += fmt::format("<li>{}: {}</li>", escaped(reason), grouped(count.get<Count>()));
  return text.empty() ? "" : "<ul>" + text + "</ul>";
}

std::string given_up_html(const json& record) {
  std::string text = "<section id=\"given-up\"><h2>What was given up</h2>\n<dl>\n";
  const Count cases = count_of(record, "cases");
  text += row("not judged",
              escaped(fmt::format("{} of {} problems had no verdict of the bound",
                                  grouped(cases - std::min(cases, count_of(record, "judged"))), grouped(cases))));
  text += row("skipped", reasons_html(record.at("skipped"))) + row("vacuous", reasons_html(record.at("vacuous")));
  text += row("undetermined",
              escaped(fmt::format("{} elements, beside {} that were judged", grouped(count_of(record, "undetermined")),
                                  grouped(count_of(record, "elements")))));
  if (const std::string assume = said(record, "assume"); !assume.empty())
    text += row("assumed", code(assume) + escaped(fmt::format(" gives up {:.3g} % of the domain",
                                                              100 * record.value("given_up", 0.0))));
  std::string avoided;
  for (const json& one : record.contains("avoided") ? record.at("avoided") : json::array()) {
    avoided +=
        "<li>" + code(said(one, "predicate")) +
        escaped(fmt::format(" ({} of {} fail)", grouped(count_of(one, "failing")), grouped(count_of(one, "asked"))));
    if (const Count defect = count_of(one, "defect"); defect > 0 && defect <= record.at("defects").size())
      avoided += fmt::format(": <a href=\"#defect-{}\">defect {}</a>", defect, defect);
    avoided += "</li>";
  }
  if (!avoided.empty()) text += row("avoided", "<ul>" + avoided + "</ul>");
  if (const Count redrawn = count_of(record, "redrawn"); redrawn > 0)
    text += row("drawn again", escaped(fmt::format("{} problems ({}) in place of what is understood", grouped(redrawn),
                                                   percent(redrawn, cases))));
  if (const Count laws = count_of(record, "laws_left_out"); laws > 0)
    text += row("laws left out", escaped(fmt::format("{} times, where they are known to fail", grouped(laws))));
  if (const Count slow = count_of(record, "slow"); slow > 0)
    text += row("slow", escaped(fmt::format("{} problems passed the time limit, and not when asked once more, alone",
                                            grouped(slow))));
  if (const Count waiting = count_of(record, "unshrunk"); waiting > 0)
    text += row("to be shrunk", escaped(fmt::format("{} failures wait", grouped(waiting))));
  if (record.contains("coverage") && !record.at("coverage").at("empty").empty()) {
    std::string regions;
    for (const json& region : record.at("coverage").at("empty")) regions += "<li>" + escaped(said(region)) + "</li>";
    text += row("never met", fmt::format("<details><summary>{} regions</summary><ul>{}</ul></details>",
                                         record.at("coverage").at("empty").size(), regions));
  }
  return text + "</dl></section>\n";
}

std::string status_html(const json& record) {
  const std::size_t defects =
      std::ranges::count_if(record.at("defects"), [](const json& d) { return !d.value("known", false); });
  if (defects > 0)
    return fmt::format("<span class=\"status bad\">{} {}</span>", defects, defects == 1 ? "defect" : "defects");
  if (!record.at("findings").empty() && record.at("exit").get<int>() == 1)
    return fmt::format("<span class=\"status bad\">{} buckets of failures</span>", record.at("findings").size());
  if (record.at("exit").get<int>() == 0) return "<span class=\"status good\">every property held</span>";
  return "<span class=\"status bad\">nothing was tested</span>";
}

std::string header_html(const json& record) {
  std::string text = fmt::format("<header><h1>{}{}</h1>\n<p>{}", escaped(said(record, "subject")),
                                 record.contains("subject_b") ? " against " + escaped(said(record, "subject_b")) : "",
                                 status_html(record));
  const Count cases = count_of(record, "cases");
  text += escaped(fmt::format(" in {} problems, {:.3g} s; seed {}", grouped(cases), record.value("seconds", 0.0),
                              said(record, "seed")));
  if (const std::string version = said(record, "version"); !version.empty()) text += escaped("; version " + version);
  if (const std::string policy = said(record, "policy"); !policy.empty()) text += escaped("; policy " + policy);
  if (const std::string shard = said(record, "shard"); !shard.empty()) text += escaped("; shard " + shard);
  text += ".</p>\n";
  text += fmt::format("<p class=\"soft\">The bound judged {} of the problems and {} output elements.</p>\n",
                      percent(count_of(record, "judged"), cases), grouped(count_of(record, "elements")));
  if (!record.value("policy_declared", true))
    text +=
        "<p class=\"warning\">The subject declares no policy: each type is held to its most generous reading.</p>\n";
  if (record.value("interrupted", false))
    text += "<p class=\"warning\">The campaign was interrupted: this is not all.</p>\n";
  if (record.contains("unfinished")) text += "<p class=\"warning\">" + escaped(said(record, "unfinished")) + "</p>\n";
  return text + "</header>\n";
}

}  // namespace

std::string html_page(const json& record) {
  try {
    std::string page =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";
    page += fmt::format(
        "<title>attest: {}</title>\n<style>{}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#defects\">To the "
        "defects</a>\n",
        escaped(said(record, "subject")), html_style);
    page += header_html(record);
    page +=
        "<nav aria-label=\"Sections\"><ul><li><a href=\"#defects\">Defects</a></li><li><a "
        "href=\"#laws\">Laws</a></li><li><a href=\"#drawn\">Drawn</a></li><li><a href=\"#given-up\">Given "
        "up</a></li></ul></nav>\n<main>\n";
    page += defects_html(record) + laws_html(record) + drawn_html(record) + given_up_html(record);
    return page +
           "</main>\n<footer class=\"soft\">attest: could a correct implementation of what was promised have produced "
           "these numbers?</footer>\n</body>\n</html>\n";
  } catch (const json::exception& error) {
    throw usage_error(fmt::format("this is no report of attest: {}", error.what()));
  }
}

}  // namespace attest::report
