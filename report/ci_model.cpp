#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "report/ci.hpp"
#include "report/html_parts.hpp"
#include "report/record.hpp"

namespace attest::report {
namespace {

using nlohmann::json;

json counts_of(const json& counts) {
  json all = counts;
  for (const std::string_view kind : failure_kinds) all[std::string(kind)] = count_of(counts, kind);
  for (const char* kind : {"pass", "warn"}) all[kind] = count_of(counts, kind);
  return all;
}

}  // namespace

std::string file_of(std::string_view subject) {
  for (const std::string_view end : {".py", ".so", ".onnx"}) {
    const std::size_t found = subject.rfind(end);
    if (found == std::string_view::npos) continue;
    const std::size_t after = found + end.size();
    if (after == subject.size() || subject[after] == ':') return std::string(subject.substr(0, after));
  }
  return {};
}

json ci_record(const json& model) {
  json record{{"subject", model.at("model")}, {"seed", model.at("seed")}, {"cases", model.at("cases")},
              {"policy", model.at("policy")}, {"exit", model.at("exit")}, {"seconds", model.at("seconds")}};
  record["version"] = joined(model.at("subjects"), "", 100);
  if (model.contains("run")) record["run"] = model.at("run");
  record["findings"] = json::array();
  record["verdicts"] = json::object();
  for (const auto& [law, counts] : model.at("verdicts").items()) record["verdicts"][law] = counts_of(counts);
  for (const json& finding : model.at("findings")) {
    json one{{"property", finding.at("law")},
             {"verdict", finding.at("verdict")},
             {"known", finding.value("known", false)},
             {"known_as", said(finding, "known_as")},
             {"witness", finding.value("witness", json())}};
    for (const char* key : {"problem", "failures", "case", "also", "reproducer"}) one[key] = finding.at(key);
    const std::string again = said(finding, "rerun");
    one["rerun"] = again.empty() ? "not known: it showed once" : again;
    one["bucket"] = said(finding, "key") + ":" + said(finding, "runtime");
    one["reason"] = fmt::format("{} (at {})", said(finding, "reason"), joined(finding.at("levels"), "", 20));
    if (finding.contains("place")) one["reason"] = said(one, "reason") + "; " + said(finding.at("place"), "words");
    record["findings"].push_back(std::move(one));
  }
  return record;
}

}  // namespace attest::report
