#include "cli/subject_option.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "report/text.hpp"
#include "subjects/builtin.hpp"
#include "subjects/fence.hpp"
#include "subjects/resolve.hpp"
#include "subjects/started.hpp"

namespace attest::cli {
namespace {

// A path as one would type it: from the working directory if that is shorter, and never without a '/' where that would
// make it the name of something else.
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
    if (!subject.family.empty()) row["family"] = subject.family;
    if (!subject.stage.empty()) row["stage"] = subject.stage;
  }
  return rows;
}

}  // namespace

std::string subject_help() {
  return "builtin:NAME, fault:NAME, ./plugin.so[:NAME], script.py[:NAME] or an adapter such as onnxruntime:Attention";
}

std::vector<Option> subject_options() {
  return {{"timeout", "DURATION", "per call of a subject in a process of its own (10s)"},
          {"load-timeout", "DURATION", "for loading it: a plug-in, a script's imports (10s; shipped adapters 60s)"},
          {"memory", "SIZE",
           "what a process of the subject may hold, with all that it starts: 512M, 8G (half of the machine's)"},
          {"in-process", "", "load a plug-in into this process, for debugging: its crash is ours"},
          {"python", "EXE", "the interpreter for Python subjects ($ATTEST_PYTHON, else python3)"}};
}

ResolveOptions resolve_options(const Settings& settings) {
  ResolveOptions options;
  options.policy = settings.text("policy").value_or("");
  options.in_process = settings.flag("in-process");
  options.python = settings.text("python").value_or("");
  const auto duration = [&](const char* key) {
    const auto seconds = settings.seconds(key);
    return seconds ? std::optional(std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(*seconds * 1000))))
                   : std::nullopt;
  };
  if (const auto call = duration("timeout")) options.limits.call = *call;
  options.load = duration("load-timeout");
  if (const auto bytes = settings.bytes("memory")) options.limits.memory = *bytes;
  return options;
}

void say_what_is_not_kept_inside() {
  static bool said = false;
  if (std::exchange(said, true) || fence_here() == Fence::memory_and_signals) return;
  std::cerr << "attest: note: this system (Linux before 6.12, or without Landlock) does not keep a subject from "
               "stopping or killing other "
               "processes of yours (docs/worker.md)\n";
}

namespace {

std::unique_ptr<SubjectFactory> open_noted(const std::string& text, const ResolveOptions& options) {
  std::unique_ptr<SubjectFactory> subject = resolve(text, Trust::command_line, options);
  if (const Origin origin = origin_of(*subject); !origin.file.empty()) {
    note_started(origin.file);
    say_what_is_not_kept_inside();
  }
  return subject;
}

// The options of the second of two subjects.
ResolveOptions second_options(const Settings& settings) {
  ResolveOptions options = resolve_options(settings);
  if (const auto python = settings.text("python-b")) options.python = *python;
  return options;
}

// A subject as an entry names it, and the option that names another.
struct Named {
  const std::string& subject;
  const std::filesystem::path& file;
  const std::string& name;
  std::string option;
};

std::string text_of(const Named& named) {
  if (!named.subject.starts_with("external:")) return named.subject;
  const auto refusal = [](const std::string& sentence) { return Error(Exit::no_subject, sentence); };
  const std::string name = named.name.empty() ? named.subject.substr(named.subject.find(':') + 1) : named.name;
  if (named.file.empty())
    throw refusal("the entry does not say which file holds its subject " + name + ": name it, " + named.option +
                  " PATH:" + name);
  const std::string path = path_from_here(named.file);
  std::string text = path + ":" + name;
  std::error_code error;
  if (!std::filesystem::is_regular_file(named.file, error))
    throw refusal("the subject of the entry is " + name + " in " + path +
                  ", and there is no such file: name where it is now, " + named.option + " PATH:" + name);
  if (!was_started(named.file))
    throw refusal("the subject of the entry is " + name + " in " + path +
                  ", which you have not run before, and no corpus file starts a program: if you trust it, " +
                  named.option + " " + report::shell_quoted(text));
  return text;
}

std::unique_ptr<SubjectFactory> open_named(const Named& named, const engine::Entry& entry, ResolveOptions options) {
  const std::string text = text_of(named);
  options.policy = entry.policy_given ? to_text(policy_of(entry.contract)) : "";
  return resolve(text, text == named.subject ? Trust::file : Trust::command_line, options);
}

}  // namespace

std::unique_ptr<SubjectFactory> open_subject(const Settings& settings, const std::string& text,
                                             const std::filesystem::path& log_folder, const std::string& policy) {
  ResolveOptions options = resolve_options(settings);
  options.log_folder = log_folder;
  if (!policy.empty()) options.policy = policy;
  return open_noted(text, options);
}

std::unique_ptr<SubjectFactory> open_second(const Settings& settings, const std::string& text,
                                            const std::filesystem::path& log_folder) {
  ResolveOptions options = second_options(settings);
  options.log_folder = log_folder;
  return open_noted(text, options);
}

std::string subject_text(const Settings& settings, const engine::Entry& entry) {
  if (const auto given = settings.text("subject")) return *given;
  return text_of({entry.subject, entry.subject_file, entry.subject_name, "--subject"});
}

std::unique_ptr<SubjectFactory> open_subject_of_entry(const Settings& settings, const engine::Entry& entry) {
  if (const auto given = settings.text("subject")) return open_subject(settings, *given);
  return open_named({entry.subject, entry.subject_file, entry.subject_name, "--subject"}, entry,
                    resolve_options(settings));
}

std::unique_ptr<SubjectFactory> open_second_of_entry(const Settings& settings, const engine::Entry& entry) {
  if (const auto given = settings.text("subject-b")) return open_second(settings, *given, {});
  const engine::SecondSubject& b = entry.subject_b.value();
  return open_named({b.subject, b.file, b.name, "--subject-b"}, entry, second_options(settings));
}

Option second_python() { return {"python-b", "EXE", "the interpreter of B, where it is another (as --python)"}; }

std::unique_ptr<SubjectFactory> open_peer() { return builtin_subject("builtin:explicit", {}); }

nlohmann::ordered_json list_subjects() {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::string_view op : builtin_ops())
    for (const auto& row : rows_of(builtin_subjects(op))) rows.push_back(row);
  for (const auto& row : rows_of(adapter_subjects())) rows.push_back(row);
  return rows;
}

// A fault's name is its id; the command line takes fault:ID.
nlohmann::ordered_json list_faults() {
  constexpr std::size_t prefix = std::string_view("fault:").size();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::string_view op : builtin_ops())
    for (const auto& row : rows_of(fault_subjects(op), prefix)) rows.push_back(row);
  return rows;
}

}  // namespace attest::cli
