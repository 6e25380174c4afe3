#include "report/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.hpp"
#include "engine/predicate.hpp"
#include "report/html_parts.hpp"
#include "report/markup.hpp"
#include "report/record.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using nlohmann::json;

std::string witness_html(const json& finding) {
  const std::string text = witness_text(finding);
  return text.empty() ? text : code(text);
}

std::string condition_html(const json& defect) {
  if (!defect.contains("explained")) return {};
  const json& e = defect.at("explained");
  const std::string predicate = said(e, "predicate");
  if (predicate.empty())
    return "no condition on sizes, options and values separates the problems that fail from the others";
  if (predicate == to_text(engine::Predicate())) {
    if (count_of(e, "failing") == 0) return {};  // no failure was counted
    return escaped(fmt::format("no condition found: {} fails {} of {}", said(e, "property"),
                               grouped(count_of(e, "failing")), grouped(count_of(e, "asked"))));
  }
  std::string text =
      code(predicate) + escaped(fmt::format(": {} fails {} of {}", said(e, "property"), grouped(count_of(e, "failing")),
                                            grouped(count_of(e, "asked"))));
  if (e.contains("elsewhere"))
    text += escaped(fmt::format(", elsewhere {} of {}", grouped(count_of(e, "failing_elsewhere")),
                                grouped(count_of(e, "elsewhere"))));
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
  for (const json& place : e.contains("where") ? e.at("where") : json::array())
    text += place_html(place, "one [batch, head]", "the bound");
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
  text += row("shown by", escaped(said(finding, "basis"))) + row("size", escaped(size));
  if (finding.contains("also") && !finding.at("also").empty())
    text += row("also fails", escaped(joined(finding.at("also"), "", 12)));
  return text + row("again", command(said(finding, "rerun")));
}

// The place where the defect was met; empty where nobody knows, as of a corpus.
std::string first_html(const json& defect) {
  if (!defect.contains("cases_to_first") || count_of(defect, "cases_to_first") == 0) return {};
  return fmt::format(", first in case {} after {}", grouped(count_of(defect, "case")),
                     duration(defect.value("seconds_to_first", 0.0)));
}

// "known: ort-attention-14".
std::string known_html(const json& one) {
  const json names = one.value("known_as", json::array());
  return names.empty() ? "known" : "known: " + escaped(joined(names, "", 8));
}

// "wrong numbers in out where scale<=0 (law policy-bound)".
std::string headline_html(const json& record, const json& defect) {
  const json* finding = finding_of(record, defect.at("buckets").at(0).get<std::string>());
  if (finding == nullptr) return escaped(said(defect.at("buckets").at(0)));
  std::string text = happened(*finding);
  const std::string where = defect.contains("explained") ? said(defect.at("explained"), "predicate") : "";
  if (!where.empty() && where != to_text(engine::Predicate())) text += " where " + where;
  return escaped(text + " (law " + said(*finding, "property") + ")") +
         (defect.value("known", false) ? " <span class=\"soft\">(" + known_html(defect) + ")</span>" : "");
}

std::string defect_html(const json& record, const json& defect, std::size_t number) {
  const std::string bucket = defect.at("buckets").at(0).get<std::string>();
  std::string text = fmt::format("<article class=\"card defect\" id=\"defect-{}\">\n<h3>{}. {}</h3>\n", number, number,
                                 headline_html(record, defect));
  text += fmt::format("<p class=\"soft\">{}{}</p>\n<dl>\n", counted(count_of(defect, "failures"), "failing problem"),
                      first_html(defect));
  text += row("condition", condition_html(defect));
  const json* finding = finding_of(record, bucket);
  if (finding != nullptr) text += finding_rows(*finding);
  text += row("reproducer", code(said(defect, "reproducer")));
  text += waiver_rows(defect);
  if (defect.contains("effective"))
    text += row("precision", escaped("asked for " + said(defect.at("effective"), "requested") + "; fits " +
                                     joined(defect.at("effective").at("fits"), "", 4)));
  if (defect.at("buckets").size() == 1) text += row("bucket", key_html(bucket));
  text += "</dl>\n" + explanation_html(defect);
  if (finding != nullptr && finding->contains("neighbours") && !finding->at("neighbours").empty())
    text += "<details><summary>Neighbours that pass</summary><p>" + escaped(joined(finding->at("neighbours"), "", 60)) +
            "</p></details>\n";
  if (defect.at("buckets").size() > 1) {
    text += fmt::format("<details><summary>Its {} buckets</summary><ul>", defect.at("buckets").size());
    for (const json& other : defect.at("buckets")) text += "<li>" + key_html(said(other)) + "</li>";
    text += "</ul></details>\n";
  }
  return text + "</article>\n";
}

std::string defects_html(const json& record) {
  std::string text = "<section id=\"defects\"><h2>Defects</h2>\n";
  const json& defects = record.at("defects");
  std::vector<Headline> headlines;
  for (const json& defect : defects)
    headlines.push_back({headline_html(record, defect), counted(count_of(defect, "failures"), "failing problem")});
  text += contents_html(headlines);
  for (std::size_t i = 0; i < defects.size(); ++i) text += defect_html(record, defects.at(i), i + 1);
  if (defects.empty() && record.at("findings").empty()) text += held_html(record);
  if (defects.empty())
    for (const json& finding : record.at("findings"))
      text += fmt::format("<article class=\"card finding\"><h3>{}</h3>\n<dl>\n{}{}</dl></article>\n",
                          escaped(said(finding, "bucket")), row("condition", condition_html(finding)),
                          finding_rows(finding));
  return text + "</section>\n";
}

// The warnings of laws, each with the problem that stands out most.
std::string warnings_html(const json& record) {
  if (!record.contains("warnings") || record.at("warnings").empty()) return {};
  std::string text = "<section id=\"warnings\"><h2>Warnings</h2>\n<p class=\"soft\">They fail nothing.</p>\n";
  for (const json& one : record.at("warnings"))
    text += fmt::format("<article class=\"card finding\"><h3>{}, {}</h3>\n<dl>\n{}{}{}</dl></article>\n",
                        escaped(said(one, "law")), counted(count_of(one, "problems"), "problem"),
                        row("problem", code(said(one, "problem"))), row("witness", witness_html(one)),
                        row("said", escaped(said(one.at("witness"), "note"))));
  return text + "</section>\n";
}

std::string given_up_html(const json& record) {
  std::string text = "<section id=\"given-up\"><h2>What was given up</h2>\n<dl>\n";
  const Count cases = count_of(record, "cases");
  text += row("not judged",
              escaped(fmt::format("{} of {} problems had no verdict of the bound",
                                  grouped(cases - std::min(cases, count_of(record, "judged"))), grouped(cases))));
  text += row("skipped", reasons_html(record.at("skipped"))) + row("vacuous", reasons_html(record.at("vacuous")));
  text += row("undetermined",
              escaped(fmt::format("{}; {} were judged", counted(count_of(record, "undetermined"), "element"),
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
    text += row("drawn again", escaped(fmt::format("{} ({}) in place of what is understood",
                                                   counted(redrawn, "problem"), percent(redrawn, cases))));
  if (const Count laws = count_of(record, "laws_left_out"); laws > 0)
    text += row("laws left out", escaped(fmt::format("{}, where they are known to fail", counted(laws, "time"))));
  if (const Count cut_off = count_of(record, "cut_off"); cut_off > 0)
    text += row("cut off", escaped(fmt::format("{} under way when time was over, and not judged",
                                               cut_off == 1 ? "1 problem was" : grouped(cut_off) + " problems were")));
  if (const Count slow = count_of(record, "slow"); slow > 0)
    text +=
        row("slow",
            escaped(fmt::format("{} passed the time limit, and not when run again alone", counted(slow, "problem"))));
  if (const Count waiting = count_of(record, "unshrunk"); waiting > 0)
    text += row("to be shrunk", escaped(counted(waiting, "failure")));
  if (record.contains("coverage") && !record.at("coverage").at("empty").empty()) {
    std::string regions;
    for (const json& region : record.at("coverage").at("empty")) regions += "<li>" + escaped(said(region)) + "</li>";
    text += row("never met", fmt::format("<details><summary>{}</summary><ul>{}</ul></details>",
                                         counted(record.at("coverage").at("empty").size(), "region"), regions));
  }
  return text + "</dl></section>\n";
}

std::string status_html(const json& record) {
  const std::size_t defects =
      std::ranges::count_if(record.at("defects"), [](const json& d) { return !d.value("known", false); });
  if (defects > 0) return fmt::format("<span class=\"status bad\">{}</span>", counted(defects, "defect"));
  if (!record.at("findings").empty() && record.at("exit").get<int>() == 1)
    return fmt::format("<span class=\"status bad\">{} of failures</span>",
                       counted(record.at("findings").size(), "bucket"));
  if (record.at("exit").get<int>() == 0)
    return record.at("findings").empty() ? "<span class=\"status good\">every property held</span>"
                                         : "<span class=\"status good\">nothing but known failures</span>";
  if (record.value("interrupted", false))
    return "<span class=\"status\">nothing failed until it was interrupted</span>";
  const std::string why = said(record, "unjudged");
  return "<span class=\"status bad\">nothing judged" + (why.empty() ? "" : ": " + escaped(why)) + "</span>";
}

std::string header_html(const json& record) {
  std::string text = fmt::format("<header><h1>{}{}</h1>\n<p>{}", escaped(said(record, "subject")),
                                 record.contains("subject_b") ? " against " + escaped(said(record, "subject_b")) : "",
                                 status_html(record));
  const Count cases = count_of(record, "cases");
  text += escaped(fmt::format(" in {}, {}", counted(cases, "problem"), duration(record.value("seconds", 0.0))));
  text += ".</p>\n";
  text += fmt::format("<p class=\"soft\">The bound judged {} of the problems and {} output elements.</p>\n",
                      percent(count_of(record, "judged"), cases), grouped(count_of(record, "elements")));
  if (!record.value("policy_declared", true))
    text += record.contains("assumed")
                ? "<p class=\"warning\">The subject declares no policy: it is held to what its "
                  "probes showed (docs/probe.md).</p>\n"
                : "<p class=\"warning\">The subject declares no policy: each type is held to its "
                  "most generous reading.</p>\n";
  if (record.value("interrupted", false))
    text += "<p class=\"warning\">The campaign was interrupted: this is not all.</p>\n";
  if (const std::string silent = said(record, "silent"); !silent.empty())
    text += "<p class=\"warning\">The campaign ended early: " + escaped(silent) + "</p>\n";
  if (record.contains("unfinished")) text += "<p class=\"warning\">" + escaped(said(record, "unfinished")) + "</p>\n";
  const std::string further =
      row("version", escaped(said(record, "version"))) + row("version of B", escaped(said(record, "version_b"))) +
      row("policy", escaped(said(record, "policy"))) + row("shard", escaped(said(record, "shard")));
  return text + run_html(record, further) + "</header>\n";
}

}  // namespace

std::string html_page(const json& record) {
  try {
    if (is_of_model(record)) return model_html_page(record);
    return page(
        said(record, "subject"), header_html(record),
        defects_html(record) + warnings_html(record) + laws_html(record) + drawn_html(record) + given_up_html(record));
  } catch (const json::exception& error) {
    throw usage_error(fmt::format("this is no report of attest: {}", error.what()));
  }
}

}  // namespace attest::report
