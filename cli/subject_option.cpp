#include "cli/subject_option.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "report/text.hpp"
#include "subjects/builtin.hpp"
#include "subjects/resolve.hpp"
#include "subjects/started.hpp"

namespace attest::cli {
namespace {

// A path as one would type it: from the working directory if that is shorter, and never without a '/' where that would make
// it the name of something else.
std::string path_from_here(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(file, error);
  const std::filesystem::path near = std::filesystem::proximate(whole, error);
  if (error || near.empty() || near.native().size() >= whole.native().size()) return whole.string();
  return (near.has_parent_path() ? near : "." / near).string();
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
  return {
      {"timeout", "DURATION", "per call of a subject in a process of its own (10s), and for loading a plug-in (60s)"},
      {"memory", "SIZE", "what a process of the subject may hold: 512M, 8G (half of the machine's)"},
      {"in-process", "", "load a plug-in into this process, for debugging: its crash is ours"},
      {"python", "EXE", "the interpreter for Python subjects ($ATTEST_PYTHON, else python3)"}};
}

ResolveOptions resolve_options(const Settings& settings) {
  ResolveOptions options;
  if (const auto policy = settings.text("policy")) options.policy = policy_from_text(*policy);
  options.in_process = settings.flag("in-process");
  options.python = settings.text("python").value_or("");
  if (const auto seconds = settings.seconds("timeout")) {
    options.limits.call = std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(*seconds * 1000)));
    options.limits.start = std::max(options.limits.start, options.limits.call);
    options.plugin_start = options.limits.call;
  }
  if (const auto bytes = settings.bytes("memory")) options.limits.memory = *bytes;
  return options;
}

std::unique_ptr<SubjectFactory> open_subject(const Settings& settings, const std::string& text,
                                             const std::filesystem::path& log_folder,
                                             const std::optional<Policy>& policy) {
  ResolveOptions options = resolve_options(settings);
  options.log_folder = log_folder;
  if (policy) options.policy = policy;
  std::unique_ptr<SubjectFactory> subject = resolve(text, Trust::command_line, options);
  if (const Origin origin = origin_of(*subject); !origin.file.empty()) note_started(origin.file);
  return subject;
}

std::string subject_text(const Settings& settings, const engine::Entry& entry) {
  if (const auto given = settings.text("subject")) return *given;
  if (!entry.subject.starts_with("external:")) return entry.subject;
  const auto refusal = [](const std::string& sentence) { return Error(Exit::no_subject, sentence); };
  const std::string name =
      entry.subject_name.empty() ? entry.subject.substr(entry.subject.find(':') + 1) : entry.subject_name;
  if (entry.subject_file.empty())
    throw refusal("the entry does not say which file holds its subject " + name + ": name it, --subject PATH:" + name);
  const std::string path = path_from_here(entry.subject_file), text = path + ":" + name;
  std::error_code error;
  if (!std::filesystem::is_regular_file(entry.subject_file, error))
    throw refusal("the subject of the entry is " + name + " in " + path +
                  ", and there is no such file: name where it is now, --subject PATH:" + name);
  if (!was_started(entry.subject_file))
    throw refusal("the subject of the entry is " + name + " in " + path +
                  ", which you have not run before, and no corpus file starts a program: if you trust it, --subject " +
                  report::shell_quoted(text));
  return text;
}

std::unique_ptr<SubjectFactory> open_subject_of_entry(const Settings& settings, const engine::Entry& entry) {
  const std::string text = subject_text(settings, entry);
  if (settings.text("subject")) return open_subject(settings, text);
  ResolveOptions options = resolve_options(settings);
  options.policy = entry.policy_given ? std::optional(entry.contract.policy) : std::nullopt;
  return resolve(text, text == entry.subject ? Trust::file : Trust::command_line, options);
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
