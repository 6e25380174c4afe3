#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "report/html_parts.hpp"
#include "report/markup.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using nlohmann::json;

constexpr std::string_view panel = "one pair of indices of the first two axes", beside = "the permitted deviations";

std::string file_name(const json& record) { return std::filesystem::path(said(record, "model")).filename().string(); }

// A note that a tensor of more than four axes has some of them joined in its picture.
std::string shape_note(const json& place) {
  if (place.at("shape").size() <= 4) return {};
  return fmt::format("<p class=\"note\">Its shape is {}: the axes before the last three are one here.</p>\n",
                     escaped(said(place.at("shape"))));
}

std::string pictures_html(const json& finding) {
  std::string text;
  std::set<std::string> shown;
  const auto show = [&](const json& holder, const char* relation) {
    for (const json& place : holder.contains("where") ? holder.at("where") : json::array()) {
      if (!shown.insert(said(place, "tensor")).second) continue;
      json told = place;
      told["relation"] = relation;
      if (count_of(told, "wrong") == 0) told.erase("wrong_at");  // together they are too far off, and none by itself
      text += place_html(told, panel, beside) + shape_note(place);
    }
  };
  show(finding, "");
  if (finding.contains("place"))
    show(finding.at("place"), "the first tensor that is wrong, as it is when it is the only output");
  return text;
}

std::string condition_html(const json& finding) {
  if (!finding.contains("when")) return {};
  const json& when = finding.at("when");
  if (said(when, "predicate").empty()) return escaped(said(when, "words"));
  return code(said(when, "predicate")) +
         escaped(fmt::format(": {} fails {} of {}, elsewhere {} of {}", said(finding, "law"),
                             grouped(count_of(when, "failing")), grouped(count_of(when, "asked")),
                             grouped(count_of(when, "failing_elsewhere")), grouped(count_of(when, "elsewhere"))));
}

// "wrong numbers in logit (law spread)": the class of the failure, its output and its law; the runtime it is of.
std::string headline_html(const json& finding) {
  const std::string key = said(finding, "key");
  const std::string what = happened(said(finding, "verdict"), key.substr(key.rfind('/') + 1),
                                    finding.contains("witness") ? said(finding.at("witness"), "output") : "");
  const std::string known = said(finding, "known_as");
  return escaped(fmt::format("{} (law {}) on {}", what, said(finding, "law"), said(finding, "runtime"))) +
         (known.empty() ? "" : " <span class=\"soft\">(known: " + escaped(known) + ")</span>");
}

std::string finding_html(const json& finding, std::size_t number) {
  const Count failures = count_of(finding, "failures");
  std::string text = fmt::format(
      "<article class=\"card defect\" id=\"defect-{}\">\n<h3>{}. {}</h3>\n<p class=\"soft\">{}, first in case {} "
      "after {}</p>\n<dl>\n",
      number, number, headline_html(finding), counted(failures, "failing run"), grouped(count_of(finding, "case")),
      duration(finding.at("seconds_to_first").get<double>()));
  text += row("condition", condition_html(finding)) + row("problem", code(said(finding, "problem")));
  if (finding.contains("after")) text += row("after", code(joined(finding.at("after"), "", 12)));
  text += row("said", escaped(said(finding, "reason"))) + waiver_rows(finding);
  const json& passing = finding.at("passes_at");
  text += row("builds", escaped(joined(finding.at("levels"), "", 20) +
                                (passing.empty() ? "" : "; passes at " + joined(passing, "", 20))));
  text +=
      row("size", escaped(fmt::format("{} after {}",
                                      finding.at("minimal").get<bool>() ? "no change makes it simpler" : "not minimal",
                                      counted(count_of(finding, "shrink_calls"), "problem"))));
  if (finding.contains("place"))
    text += row("where", escaped(said(finding.at("place"), "words"))) +
            row("segment", escaped(said(finding.at("place"), "segment_words")));
  if (!finding.at("also").empty()) text += row("also fails", escaped(joined(finding.at("also"), "", 12)));
  if (const std::string file = said(finding, "reproducer"); !file.empty()) text += row("reproducer", code(file));
  const std::string again = said(finding, "rerun");
  text += row("again", again.empty() ? "nothing shows it again: it was seen once" : command(again));
  text += row("key", key_html(said(finding, "key")));
  return text + "</dl>\n" + pictures_html(finding) + "</article>\n";
}

std::string defects_html(const json& record) {
  std::string text = "<section id=\"defects\"><h2>Defects</h2>\n";
  std::vector<Headline> headlines;
  for (const json& finding : record.at("findings"))
    headlines.push_back({headline_html(finding), counted(count_of(finding, "failures"), "failing run")});
  text += contents_html(headlines);
  std::size_t number = 0;
  for (const json& finding : record.at("findings")) text += finding_html(finding, ++number);
  if (number == 0) text += held_html(record);
  if (const Count untold = count_of(record, "untold"); untold > 0)
    text += fmt::format("<p>Not looked at: {} of further kinds.</p>\n", counted(untold, "failure"));
  return text + "</section>\n";
}

std::string given_up_html(const json& record) {
  std::string text = "<section id=\"given-up\"><h2>What was given up</h2>\n<dl>\n";
  Count vacuous = 0;
  const json& verdicts = record.at("verdicts");
  if (verdicts.contains("spread"))
    for (const auto& [reason, count] : verdicts.at("spread").at("vacuous").items()) vacuous += count.get<Count>();
  text += row("not judged", escaped(fmt::format("{} of {} runs had no verdict on their numbers", grouped(vacuous),
                                                grouped(count_of(record, "runs")))));
  text += row("not taken", reasons_html(record.at("skipped")));
  text += row("undetermined",
              escaped(fmt::format("{}; {} were judged", counted(count_of(record, "undetermined"), "element"),
                                  grouped(count_of(record, "elements")))));
  if (const Count slow = count_of(record, "slow"); slow > 0)
    text += row("slow", escaped(fmt::format("{} passed the time limit, and not when run again in a fresh process",
                                            counted(slow, "run"))));
  return text + "</dl></section>\n";
}

// Parts that are alike share a row.
std::string parts_html(const json& record) {
  if (!record.contains("parts") || record.at("parts").empty()) return {};
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> alike;
  for (const json& part : record.at("parts"))
    alike[{said(part, "operation"), said(part, "skipped")}].push_back(said(part, "tensor"));
  std::string text = "<section id=\"parts\"><h2>Parts of which bounds are proven</h2>\n<dl>\n";
  for (const auto& [what, tensors] : alike)
    text += row(what.first,
                escaped(fmt::format("{} {}: {}", grouped(tensors.size()),
                                    what.second.empty() ? "held to its bound by itself" : "not held: " + what.second,
                                    joined(tensors, "", 12))));
  return text + "</dl></section>\n";
}

std::string status_html(const json& record) {
  const auto defects =
      std::ranges::count_if(record.at("findings"), [](const json& one) { return !one.value("known", false); });
  if (defects > 0)
    return fmt::format("<span class=\"status bad\">{}</span>", counted(static_cast<Count>(defects), "defect"));
  if (!record.at("findings").empty()) return "<span class=\"status good\">nothing but known failures</span>";
  if (record.value("interrupted", false))
    return "<span class=\"status\">nothing failed until it was interrupted</span>";
  return record.at("exit").get<int>() == 0 ? "<span class=\"status good\">every law held</span>"
                                           : "<span class=\"status bad\">nothing was judged</span>";
}

std::string header_html(const json& record) {
  std::string text = fmt::format("<header><h1>{}</h1>\n<p>{}", escaped(file_name(record)), status_html(record));
  text += escaped(fmt::format(" in {}, {}, {}", counted(count_of(record, "cases"), "problem"),
                              counted(count_of(record, "runs"), "run"), duration(record.at("seconds").get<double>())));
  text += ".</p>\n";
  text += fmt::format(
      "<p class=\"soft\">{} output elements were compared with an ensemble of correct evaluations of the graph: a "
      "verdict is statistical, and no proof.{}</p>\n",
      grouped(count_of(record, "elements")),
      record.value("proven", std::int64_t{0}) > 0
          ? fmt::format(" {} elements of parts by themselves were judged by proven bounds.",
                        grouped(count_of(record, "proven")))
          : "");
  if (const auto notes = record.find("notes"); notes != record.end())
    for (const auto& [where, note] : notes->items())
      text += "<p class=\"warning\">" + escaped(fmt::format("{}: {}.", where, said(*notes, where.c_str()))) + "</p>\n";
  if (record.value("interrupted", false))
    text += "<p class=\"warning\">The campaign was interrupted: this is not all.</p>\n";
  if (record.contains("unfinished")) text += "<p class=\"warning\">" + escaped(said(record, "unfinished")) + "</p>\n";
  const std::string further = row("runtimes", escaped(joined(record.at("subjects"), "", 20))) +
                              row("model", code(said(record, "model"))) +
                              row("precision", escaped(said(record, "policy")));
  return text + run_html(record, further) + "</header>\n";
}

}  // namespace

bool is_of_model(const json& record) { return record.value("kind", json()) == json("model"); }

std::string model_html_page(const json& record) {
  return page(
      file_name(record), header_html(record),
      defects_html(record) + parts_html(record) + laws_html(record) + drawn_html(record) + given_up_html(record));
}

}  // namespace attest::report
