#include "cli/subject_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "engine/campaign_folder.hpp"
#include "engine/probe/first.hpp"
#include "report/text.hpp"
#include "subjects/builtin.hpp"
#include "subjects/fence.hpp"
#include "subjects/resolve.hpp"
#include "subjects/shipped.hpp"
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
  return under(
      "Subject",
      {{"timeout", "DURATION", "per call of a subject in a process of its own (10s)"},
       {"load-timeout", "DURATION", "for loading it: a plug-in, a script's imports (10s; shipped adapters 60s)"},
       {"memory", "SIZE",
        "what a process of the subject may hold, with all that it starts: 512M, 8G (half of the machine's)"},
       {"in-process", "", "load a plug-in into this process, for debugging: its crash is ours"},
       {"python", "EXE", "the interpreter for Python subjects ($ATTEST_PYTHON, else python3)"}});
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

std::vector<Option> probe_first_options() {
  return under(
      "Subject",
      {{"probe-first", "",
        "hold a subject that declares no policy to what its probes show, however long they take (docs/probe.md)"},
       {"no-probe-first", "", "never: hold it to the most generous reading"},
       {"probe-cache", "DIR|none", "what probes showed of each version ($XDG_CACHE_HOME/attest/probes)"}});
}

namespace {

// Returns the folder of the cache; empty: there is none.
std::filesystem::path probe_cache(const Settings& settings) {
  if (const auto named = settings.text("probe-cache")) return *named == "none" ? "" : *named;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "attest" / "probes";
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache" / "attest" / "probes";
  return {};
}

// The file or folder that a subject lies in.
std::filesystem::path content_of(const std::string& text, const SubjectFactory& subject) {
  if (const Origin origin = origin_of(subject); !origin.file.empty()) return origin.file;
  const std::filesystem::path plugin = adapter_plugin(text.substr(0, text.find(':')));
  std::error_code error;
  return std::filesystem::is_regular_file(plugin, error) ? plugin : python_folder() / "attest" / "adapters";
}

// The part of a campaign that probes by default may take, and at least a second; where the number of problems ends it,
// a hundredth of a second for each is its time.
double probing_seconds(const engine::CampaignOptions& options) {
  constexpr double part = 0.1, problem = 0.01, least = 1, forever = 600;
  const double seconds =
      options.seconds.value_or(options.cases ? problem * static_cast<double>(*options.cases) : forever);
  return std::max(least, part * seconds);
}

}  // namespace

std::unique_ptr<SubjectFactory> probed_first(const Settings& settings, std::unique_ptr<SubjectFactory> subject,
                                             bool by_default, engine::CampaignOptions& options) {
  const bool asked = settings.flag("probe-first"), never = settings.flag("no-probe-first");
  if (asked && never) throw usage_error("--probe-first and --no-probe-first exclude each other: give one of them");
  const SubjectInfo& info = subject->info();
  const ops::Op& op = engine::op_of(options, info);
  if (never || options.policy || !(asked || by_default) || !engine::gains_by_probes(info, op)) return subject;
  std::error_code error;
  if (!options.folder.empty() && std::filesystem::exists(options.folder / "campaign.json", error))
    return held_as_begun(std::move(subject), options.folder, options);
  engine::ProbeFirstOptions how;
  how.jobs = options.jobs;
  if (!asked) how.seconds = probing_seconds(options);
  how.cache = probe_cache(settings);
  how.subject = options.subject;
  how.content = content_of(options.subject, *subject);
  engine::ProbedFirst probed = engine::probed_first(std::move(subject), op, how);
  for (const std::string& note : probed.notes) std::cerr << "attest: note: " << report::printable(note) << "\n";
  options.observed = std::move(probed.observed);
  const std::string noted = probed.from.empty() ? "" : "noted earlier in " + report::printable(probed.from.string());
  const std::string now = probed.asked ? fmt::format("seen now, in {:.1f} s", probed.took) : "";
  options.observed_whence = noted + (noted.empty() || now.empty() ? "" : ", the rest ") + now;
  return std::move(probed.subject);
}

std::unique_ptr<SubjectFactory> held_as_begun(std::unique_ptr<SubjectFactory> subject,
                                              const std::filesystem::path& folder, engine::CampaignOptions& options) {
  const ops::Op& op = engine::op_of(options, subject->info());
  options.observed = engine::observed_in(folder, subject->info(), op);
  options.observed_whence = "as this campaign began";
  return options.observed ? engine::held_to(std::move(subject), op, *options.observed) : std::move(subject);
}

std::string subject_text(const Settings& settings, const engine::Entry& entry) {
  if (const auto given = settings.text("subject")) return *given;
  return text_of({entry.subject, entry.subject_file, entry.subject_name, "--subject"});
}

bool has_subject(const Settings& settings, const engine::Entry& entry) {
  return !engine::is_saved(entry) || settings.text("subject");
}

std::unique_ptr<SubjectFactory> open_subject_of_entry(const Settings& settings, const engine::Entry& entry) {
  const auto given = settings.text("subject");
  if (!has_subject(settings, entry))
    throw Error(Exit::no_subject, "the entry holds saved numbers and no subject: name one to ask the same, --subject");
  auto subject = given ? open_subject(settings, *given)
                       : open_named({entry.subject, entry.subject_file, entry.subject_name, "--subject"}, entry,
                                    resolve_options(settings));
  return engine::held_to_entry(std::move(subject), entry);
}

std::unique_ptr<SubjectFactory> open_second_of_entry(const Settings& settings, const engine::Entry& entry) {
  if (const auto given = settings.text("subject-b")) return open_second(settings, *given, {});
  const engine::SecondSubject& b = entry.subject_b.value();
  return open_named({b.subject, b.file, b.name, "--subject-b"}, entry, second_options(settings));
}

Option second_python() {
  return {"python-b", "EXE", "the interpreter of B, where it is another (as --python)", "", "Subject"};
}

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
