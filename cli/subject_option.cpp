#include "cli/subject_option.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "subjects/builtin.hpp"
#include "subjects/resolve.hpp"

namespace attest::cli {
namespace {

ResolveOptions read_options(const Settings& settings) {
  ResolveOptions options;
  if (const auto policy = settings.text("policy")) options.policy = policy_from_text(*policy);
  options.in_process = settings.flag("in-process");
  options.python = settings.text("python").value_or("");
  if (const auto seconds = settings.seconds("timeout"))
    options.limits.call = std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(*seconds * 1000)));
  return options;
}

nlohmann::ordered_json rows_of(const std::vector<ListedSubject>& subjects, std::size_t drop_prefix = 0) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ListedSubject& subject : subjects) {
    nlohmann::ordered_json& row =
        rows.emplace_back(nlohmann::ordered_json{{"name", subject.name.substr(drop_prefix)}, {"doc", subject.doc}});
    if (!subject.report.empty()) row["report"] = subject.report;
    if (!subject.parent.empty()) row["parent"] = subject.parent;
  }
  return rows;
}

}  // namespace

std::string subject_help() {
  return "builtin:NAME, fault:NAME, ./plugin.so[:NAME], script.py[:NAME] or an adapter such as onnxruntime:Attention";
}

std::vector<Option> subject_options() {
  return {{"timeout", "DURATION", "per call of a subject in a process of its own (10s)"},
          {"in-process", "", "load a plug-in into this process, for debugging: its crash is ours"},
          {"python", "EXE", "the interpreter for Python subjects ($ATTEST_PYTHON, else python3)"}};
}

std::unique_ptr<SubjectFactory> open_subject(const Settings& settings, const std::string& text) {
  return resolve(text, Trust::command_line, read_options(settings));
}

std::unique_ptr<SubjectFactory> open_subject(const Settings& settings, const std::string& text,
                                             const std::optional<Policy>& policy) {
  ResolveOptions options = read_options(settings);
  options.policy = policy;
  return resolve(text, Trust::command_line, options);
}

std::unique_ptr<SubjectFactory> open_subject_of_file(const Settings& settings, const engine::Entry& entry) {
  ResolveOptions options = read_options(settings);
  options.policy = entry.policy_given ? std::optional(entry.contract.policy) : std::nullopt;
  return resolve(entry.subject, Trust::file, options);
}

std::unique_ptr<SubjectFactory> open_peer() { return builtin_subject("builtin:explicit", std::nullopt); }

nlohmann::ordered_json list_subjects() {
  nlohmann::ordered_json rows = rows_of(builtin_subjects());
  for (const auto& row : rows_of(adapter_subjects())) rows.push_back(row);
  return rows;
}

// A fault's name is its id; the command line takes fault:ID.
nlohmann::ordered_json list_faults() { return rows_of(fault_subjects(), std::string_view("fault:").size()); }

}  // namespace attest::cli
