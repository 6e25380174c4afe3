#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "engine/failure.hpp"
#include "report/ci.hpp"
#include "report/html_parts.hpp"

namespace attest::report {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// RFC 3986: characters that may not stand in a path as they are. A file's own bytes are kept.
std::string uri_of(std::string_view path) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path)
    uri += plain.find(c) != std::string_view::npos ? std::string(1, c)
                                                   : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return uri;
}

ordered_json at(const std::string& file, std::int64_t line = 1) {
  return ordered_json::array(
      {{{"physicalLocation", {{"artifactLocation", {{"uri", uri_of(file)}}}, {"region", {{"startLine", line}}}}}}});
}

ordered_json log(const std::set<std::string>& laws, ordered_json results, int status, bool of_model = false,
                 const json& about = json::object()) {
  ordered_json rules = ordered_json::array();
  for (const std::string& law : laws)
    rules.push_back({{"id", law}, {"shortDescription", {{"text", law_sentence(law, of_model)}}}});
  ordered_json run;
  run["tool"]["driver"] = {
      {"name", "attest"}, {"semanticVersion", engine::attest_version()}, {"rules", std::move(rules)}};
  ordered_json invocation{{"executionSuccessful", status == 0 || status == 1}, {"exitCode", status}};
  for (const auto& [key, told] : {std::pair{"commandLine", "command"}, {"endTimeUtc", "ended"}, {"account", "user"}})
    if (about.contains(told)) invocation[key] = said(about, told);
  if (about.contains("versions")) invocation["properties"] = about.at("versions");
  run["invocations"] = ordered_json::array({std::move(invocation)});
  run["results"] = std::move(results);
  ordered_json object;
  object["$schema"] = "https://json.schemastore.org/sarif-2.1.0.json";
  object["version"] = "2.1.0";
  object["runs"] = ordered_json::array({std::move(run)});
  return object;
}

std::string message_of(const json& finding, const std::string& subject) {
  std::string text =
      fmt::format("{}. Law {} ({}) on {}, problem {}", finding_line(finding), finding.at("property").get<std::string>(),
                  finding.at("verdict").get<std::string>(), subject, finding.at("problem").get<std::string>());
  if (finding.contains("basis")) text += ". Shown by: " + finding.at("basis").get<std::string>();
  if (const std::string known = said(finding, "known_as"); !known.empty()) text += ". Known: " + known;
  return text + ". Again: " + finding.at("rerun").get<std::string>();
}

}  // namespace

ordered_json sarif_json(const json& given) {
  try {
    const json summary = is_of_model(given) ? ci_record(given) : given;
    const auto subject = summary.at("subject").get<std::string>();
    json about = summary.value("run", json::object());
    for (const auto& [key, told] : {std::pair{"subject", said(summary, "version")},
                                    {"libraries", said(about, "libraries")},
                                    {"system", said(about, "system")},
                                    {"processor", said(about, "processor")}})
      if (!told.empty()) about["versions"][key] = told;
    const json begins = about.value("line", json());
    const std::int64_t line = begins.is_number_integer() && begins > 0 ? begins.get<std::int64_t>() : 1;
    std::set<std::string> laws;
    ordered_json results = ordered_json::array();
    for (const json& finding : summary.at("findings")) {
      const auto law = finding.at("property").get<std::string>();
      laws.insert(law);
      ordered_json result{{"ruleId", law},
                          {"level", finding.at("known").get<bool>() ? "note" : "error"},
                          {"message", {{"text", message_of(finding, subject)}}},
                          {"partialFingerprints", {{"attestBucket/v1", finding.at("bucket").get<std::string>()}}},
                          {"occurrenceCount", std::max<std::uint64_t>(1, finding.at("failures").get<std::uint64_t>())}};
      const auto reproducer = finding.at("reproducer").get<std::string>();
      if (const std::string file = file_of(subject); !file.empty())
        result["locations"] = at(file, line);
      else if (!reproducer.empty())
        result["locations"] = at(reproducer);
      if (!reproducer.empty()) result["relatedLocations"] = at(reproducer);
      if (finding.at("known").get<bool>()) result["baselineState"] = "unchanged";
      results.push_back(std::move(result));
    }
    return log(laws, std::move(results), summary.at("exit").get<int>(), is_of_model(given), about);
  } catch (const json::exception& error) {
    throw usage_error(fmt::format("this is no report of attest: {}", error.what()));
  }
}

ordered_json sarif_json(const std::vector<ReplayedCase>& cases) {
  using Outcome = ReplayedCase::Outcome;
  std::set<std::string> laws;
  ordered_json results = ordered_json::array();
  bool failed = false;
  for (const ReplayedCase& one : cases) {
    if (one.outcome != Outcome::failed && one.outcome != Outcome::error) continue;
    failed = true;
    const std::string law = one.property.empty() ? "corpus" : one.property;
    laws.insert(law);
    ordered_json result{{"ruleId", law},
                        {"level", "error"},
                        {"message", {{"text", one.sentence.empty() ? law : one.sentence}}},
                        {"locations", at(one.file)}};
    if (!one.bucket.empty()) result["partialFingerprints"] = {{"attestBucket/v1", one.bucket}};
    results.push_back(std::move(result));
  }
  return log(laws, std::move(results), failed ? 1 : 0);
}

}  // namespace attest::report
