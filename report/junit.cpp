#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"
#include "core/json_text.hpp"
#include "report/ci.hpp"
#include "report/html_parts.hpp"
#include "report/markup.hpp"
#include "report/record.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using nlohmann::json;

struct Case {
  std::string class_name, name, body;
  enum class Kind { passed, failed, error, skipped } kind = Kind::passed;
};

std::string element(std::string_view tag, std::string_view type, std::string_view message, std::string_view text) {
  return fmt::format("<{} type=\"{}\" message=\"{}\">{}</{}>", tag, escaped(type), escaped(message), escaped(text),
                     tag);
}

std::string suite(std::string_view name, const std::vector<std::pair<std::string, std::string>>& properties,
                  double seconds, const std::vector<Case>& cases, const json& run = json::object()) {
  const auto count = [&](Case::Kind kind) { return std::ranges::count(cases, kind, &Case::kind); };
  const std::string numbers =
      fmt::format(R"(tests="{}" failures="{}" errors="{}" skipped="{}" time="{:.3f}")", cases.size(),
                  count(Case::Kind::failed), count(Case::Kind::error), count(Case::Kind::skipped), seconds);
  std::string about;  // the run, by the attributes that JUnit has for it
  if (run.contains("ended")) about += fmt::format(R"( timestamp="{}")", escaped(said(run, "ended")));
  std::string text =
      fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n<testsuite name=\"{}\" {}{}>\n",
                  numbers, escaped(name), numbers, about);
  if (!properties.empty()) text += "<properties>\n";
  for (const auto& [key, value] : properties)
    text += fmt::format("<property name=\"{}\" value=\"{}\"/>\n", escaped(key), escaped(value));
  if (!properties.empty()) text += "</properties>\n";
  std::string place;  // of the subject
  if (run.contains("file")) place += fmt::format(R"( file="{}")", escaped(said(run, "file")));
  if (run.contains("line")) place += fmt::format(R"( line="{}")", escaped(said(run, "line")));
  for (const Case& one : cases) {
    text += fmt::format("<testcase classname=\"{}\" name=\"{}\"{}", escaped(one.class_name), escaped(one.name), place);
    text += one.body.empty() ? "/>\n" : fmt::format(">{}</testcase>\n", one.body);
  }
  return text + "</testsuite>\n</testsuites>\n";
}

std::uint64_t sum_of(const json& reasons) {
  std::uint64_t sum = 0;
  for (const auto& [reason, count] : reasons.items()) sum += count.get<std::uint64_t>();
  return sum;
}

std::string most_of(const json& reasons) {
  std::string best;
  std::uint64_t most = 0;
  for (const auto& [reason, count] : reasons.items())
    if (count.get<std::uint64_t>() > most) {
      most = count.get<std::uint64_t>();
      best = reason;
    }
  return best;
}

// Laws that failed beside the one that told a finding, of findings that are new and of those that are known.
struct Beside {
  std::set<std::string> of_new, of_known;
};
Beside beside(const json& summary) {
  Beside laws;
  for (const json& finding : summary.at("findings")) {
    std::set<std::string>& into = finding.at("known").get<bool>() ? laws.of_known : laws.of_new;
    into.insert(finding.at("property").get<std::string>());
    for (const json& law : finding.at("also")) into.insert(law.get<std::string>());
  }
  return laws;
}

// A law by its verdicts alone.
Case by_counts(const std::string& subject, const std::string& law, const json& counts, const Beside& laws) {
  Case one{subject, law, {}, Case::Kind::passed};
  std::uint64_t failed = 0;
  for (const std::string_view kind : failure_kinds) failed += counts.at(kind).get<std::uint64_t>();
  // All failures are known if there is no new finding.
  if (failed > 0 && (laws.of_new.empty() || (laws.of_known.contains(law) && !laws.of_new.contains(law)))) {
    one.body =
        fmt::format("<system-out>failed on {}, of defects that are known</system-out>", counted(failed, "problem"));
  } else if (failed > 0) {
    one.kind = Case::Kind::failed;
    one.body = element("failure", "fail", "failed on " + counted(failed, "problem"),
                       "the finding stands under another law that failed on them");
  } else if (counts.at("pass").get<std::uint64_t>() + counts.at("warn").get<std::uint64_t>() == 0) {
    one.kind = Case::Kind::skipped;
    const json& why = sum_of(counts.at("skip")) > 0 ? counts.at("skip") : counts.at("vacuous");
    one.body = fmt::format("<skipped message=\"{}\"/>", escaped("judged nothing, mostly because: " + most_of(why)));
  }
  return one;
}

std::string told(const json& finding) {
  std::string text = fmt::format("bucket   {}\nproblem  {}\n", finding.at("bucket").get<std::string>(),
                                 finding.at("problem").get<std::string>());
  if (finding.contains("reason")) text += "said     " + finding.at("reason").get<std::string>() + "\n";
  if (finding.contains("basis")) text += "shown by " + finding.at("basis").get<std::string>() + "\n";
  if (const json& witness = finding.at("witness"); witness.is_object()) text += "witness  " + json_text(witness) + "\n";
  return text + fmt::format("failures {}, first in case {}\nrerun    {}\n", finding.at("failures").get<std::uint64_t>(),
                            finding.at("case").get<std::uint64_t>(), finding.at("rerun").get<std::string>());
}

}  // namespace

std::string junit_xml(const json& given) {
  try {
    const json summary = is_of_model(given) ? ci_record(given) : given;
    const auto subject = summary.at("subject").get<std::string>();
    const Beside laws = beside(summary);
    std::vector<Case> cases;
    std::set<std::string> told_by_findings;
    std::map<std::string, std::size_t> place;
    for (const auto& [law, counts] : summary.at("verdicts").items()) {
      place[law] = cases.size();
      cases.push_back(by_counts(subject, law, counts, laws));
    }
    for (const json& finding : summary.at("findings")) {
      if (finding.at("known").get<bool>()) continue;
      const auto law = finding.at("property").get<std::string>();
      const auto [at, is_new] = place.emplace(law, cases.size());
      if (is_new) cases.push_back({subject, law, {}, Case::Kind::passed});
      Case& one = cases[at->second];
      if (told_by_findings.insert(law).second) one.body.clear();
      one.kind = Case::Kind::failed;
      one.body += element("failure", finding.at("verdict").get<std::string>(), finding_line(finding), told(finding));
    }
    if (const int exit = summary.at("exit").get<int>();
        exit == static_cast<int>(Exit::incomplete) || exit == static_cast<int>(Exit::internal))
      cases.push_back(
          {subject, "campaign",
           element("error", "nothing judged", summary.value("unjudged", "nothing was tested"), "see the skipped laws"),
           Case::Kind::error});
    const auto text = [&](const char* key) {
      const json value = summary.value(key, json());
      return value.is_null() ? std::string() : value.is_string() ? value.get<std::string>() : json_text(value);
    };
    json run = summary.value("run", json::object());
    if (const std::string file = file_of(subject); !file.empty()) run["file"] = file;
    return suite("attest " + subject,
                 {{"verb", text("verb")},
                  {"seed", text("seed")},
                  {"cases", text("cases")},
                  {"policy", text("policy")},
                  {"shard", text("shard")},
                  {"version", text("version")},
                  {"libraries", said(run, "libraries")},
                  {"attest", said(run, "attest")},
                  {"command", said(run, "command")},
                  {"machine", said(run, "system") + "; " + said(run, "processor")}},
                 summary.at("seconds").get<double>(), cases, run);
  } catch (const json::exception& error) {
    throw usage_error(fmt::format("this is no report of attest: {}", error.what()));
  }
}

std::string junit_xml(const std::vector<ReplayedCase>& cases) {
  using Outcome = ReplayedCase::Outcome;
  std::vector<Case> all;
  for (const ReplayedCase& one : cases) {
    Case& made =
        all.emplace_back(Case{one.subject.empty() ? "attest replay" : one.subject, one.file, {}, Case::Kind::passed});
    if (one.outcome == Outcome::skipped) {
      made.kind = Case::Kind::skipped;
      made.body = fmt::format("<skipped message=\"{}\"/>", escaped(one.sentence));
    } else if (one.outcome != Outcome::passed) {
      const bool failed = one.outcome == Outcome::failed;
      made.kind = failed ? Case::Kind::failed : Case::Kind::error;
      made.body = element(failed ? "failure" : "error", one.property, one.sentence, one.bucket);
    }
  }
  return suite("attest replay", {}, 0, all);
}

}  // namespace attest::report
