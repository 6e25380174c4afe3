#include "subjects/resolve.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "core/error.hpp"
#include "subjects/message.hpp"
#include "subjects/names.hpp"
#include "subjects/plugin.hpp"
#include "subjects/python_sums.hpp"
#include "subjects/shipped.hpp"

namespace attest {
namespace {

namespace fs = std::filesystem;

// PATH[:NAME]
struct Target {
  std::string path, name;
};

// Splits at the last colon, unless the whole text ends with `suffix`; nullopt if the path does not.
std::optional<Target> split(std::string_view text, std::string_view suffix) {
  if (text.ends_with(suffix)) return Target{std::string(text), {}};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !text.substr(0, colon).ends_with(suffix)) return std::nullopt;
  return Target{std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

bool is_program(const std::string& path) {
  std::error_code ignored;
  return path.find('/') != std::string::npos && fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<Target> split_program(std::string_view text) {
  if (is_program(std::string(text))) return Target{std::string(text), {}};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !is_program(std::string(text.substr(0, colon)))) return std::nullopt;
  return Target{std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

// A folder that only this user can write, in the one for temporary files, where others may have put something of its
// name.
fs::path private_folder() {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  if (error) {
    const char* named = std::getenv("TMPDIR");
    throw usage_error(std::string("the folder for temporary files, ") + (named ? named : "/tmp") +
                      ", is not there: let TMPDIR name one that is");
  }
  fs::path folder = temporary / ("attest-" + std::to_string(::geteuid()));
  const std::string what = "the folder " + folder.string() + " for what a worker prints ";
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw usage_error(what + "cannot be made: " + std::strerror(errno) + ": let TMPDIR name another place");
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid())
    throw usage_error(what + "is " +
                      (S_ISLNK(status.st_mode)    ? "a link"
                       : !S_ISDIR(status.st_mode) ? "no folder"
                                                  : "another user's") +
                      ": remove it, or let TMPDIR name another place");
  fs::permissions(folder, fs::perms::owner_all, error);
  if (error) throw usage_error(what + "cannot be used: " + error.message());
  return folder;
}

// A file for what the workers of a subject print.
fs::path log_for(std::string_view subject, fs::path folder) {
  if (folder.empty()) folder = private_folder();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw usage_error("the folder " + folder.string() + " for what a worker prints cannot be made: " + error.message());
  std::string name(subject);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '-');
  return folder / (name.substr(name.size() > 100 ? name.size() - 100 : 0) + ".log");
}

std::string python_of(const ResolveOptions& options) {
  if (!options.python.empty()) return options.python;
  const char* variable = std::getenv("ATTEST_PYTHON");
  return variable != nullptr && *variable != '\0' ? variable : "python3";
}

// Shipped adapters load libraries that may take their time.
WorkerLimits limits_of(const ResolveOptions& options, bool shipped) {
  WorkerLimits limits = options.limits;
  limits.start = options.load.value_or(shipped ? limits.once : limits.start);
  return limits;
}

// `file`: that the worker serves; empty for an adapter.
std::unique_ptr<SubjectFactory> worker(std::vector<std::string> argv, const std::string& file,
                                       const std::string& target, const std::string& name, std::string_view text,
                                       const ResolveOptions& options) {
  WorkerCommand command{std::move(argv),
                        target,
                        log_for(text, options.log_folder),
                        limits_of(options, file.empty()),
                        file,
                        {options.ways.mailbox, false}};
  return std::make_unique<WorkerFactory>(std::move(command), name, std::string(text));
}

std::vector<std::string> python_worker(const std::string& target, const ResolveOptions& options) {
  return {python_of(options),       "-c",  std::string(python_starter), python_folder().string(),
          std::string(python_sums), target};
}

// `file`: as for worker().
std::unique_ptr<SubjectFactory> plugin(const Target& target, std::string_view text, const ResolveOptions& options,
                                       const std::string& file) {
  if (!options.in_process)
    return worker({plugin_host().string(), target.path}, file, target.path, target.name, text, options);
  const std::vector<PluginEntry> entries = load_plugin(target.path);
  std::vector<std::string> names;
  for (const PluginEntry& entry : entries) names.push_back(entry.name);
  return std::make_unique<InProcessPlugin>(entries[choose(names, target.name, target.path)], file, std::string(text));
}

std::unique_ptr<SubjectFactory> python_subject(std::string_view text, const ResolveOptions& options) {
  PythonTarget target = python_target(text, options).value();
  return std::make_unique<WorkerFactory>(std::move(target.command), target.name, std::string(text));
}

void refuse_in_process(std::string_view text, const ResolveOptions& options) {
  if (options.in_process)
    throw usage_error(one_line(text) + " runs in a process of its own: leave out --in-process, which is for plug-ins");
}

// The subjects that lie in a file; nullptr if `text` names no file of a kind that can hold one.
std::unique_ptr<SubjectFactory> from_path(std::string_view text, Trust trust, const ResolveOptions& options) {
  const std::optional<Target> library = split(text, ".so"), script = split(text, ".py");
  const std::optional<Target> program = library || script ? std::nullopt : split_program(text);
  if (!library && !script && !program) return nullptr;
  if (trust == Trust::file)
    throw usage_error("the file names the path " + one_line(text) +
                      " as its subject: a path comes from the command line alone (--subject PATH)");
  const std::string& path = (library ? library : script ? script : program)->path;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) throw Error(Exit::no_subject, "there is no file " + one_line(path));
  if (library) return plugin(*library, text, options, library->path);
  refuse_in_process(text, options);
  if (script) return python_subject(text, options);
  return worker({program->path}, program->path, program->path, program->name, text, options);
}

// subjects.txt: "PREFIX:NAME  what it is" a line.
std::vector<ListedSubject> listed(const fs::path& path) {
  std::vector<ListedSubject> subjects;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t end = line.find(' ');
    if (line.empty() || line.front() == '#' || end == std::string::npos) continue;
    subjects.push_back({line.substr(0, end), line.substr(line.find_first_not_of(' ', end))});
  }
  return subjects;
}

std::vector<ListedSubject> python_adapters() {
  return listed(python_folder() / "attest" / "adapters" / "subjects.txt");
}
std::vector<ListedSubject> plugin_adapters() { return listed(adapter_folder() / "subjects.txt"); }

bool is_among(const std::vector<ListedSubject>& subjects, std::string_view text) {
  return std::any_of(subjects.begin(), subjects.end(),
                     [&](const ListedSubject& subject) { return subject.name == text; });
}

// An adapter in C++: a plug-in like another, which may not have been built yet.
std::unique_ptr<SubjectFactory> plugin_adapter(std::string_view text, const ResolveOptions& options) {
  const std::size_t colon = text.find(':');
  const std::string prefix(text.substr(0, colon)), name(text.substr(colon + 1));
  const fs::path path = adapter_plugin(prefix);
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored))
    throw Error(Exit::no_subject, one_line(text) +
                                      " is asked by a plug-in that is built with its library when it is first " +
                                      "wanted, and " + path.string() + " is not there: ./run builds it, or " +
                                      (adapter_folder() / prefix / "CMakeLists.txt").string() + " says how");
  return plugin({path.string(), name}, text, options, {});
}

}  // namespace

std::vector<ListedSubject> adapter_subjects() {
  std::vector<ListedSubject> subjects = python_adapters();
  for (ListedSubject& subject : plugin_adapters()) subjects.push_back(std::move(subject));
  return subjects;
}

std::optional<fs::path> plugin_adapter_script(std::string_view text) {
  if (!is_among(plugin_adapters(), text)) return std::nullopt;
  const std::size_t colon = text.find(':');
  fs::path script = adapter_folder() / text.substr(0, colon) / (std::string(text.substr(colon + 1)) + ".py");
  std::error_code ignored;
  return fs::is_regular_file(script, ignored) ? std::optional(script) : std::nullopt;
}

std::optional<PythonTarget> python_target(std::string_view text, const ResolveOptions& options) {
  const bool adapter = is_among(python_adapters(), text);
  const std::optional<Target> script = adapter ? std::nullopt : split(text, ".py");
  if (!adapter && !script) return std::nullopt;
  const std::string target = adapter ? std::string(text) : script->path;
  WorkerCommand command{python_worker(target, options), target, log_for(text, options.log_folder),
                        limits_of(options, adapter),    {},     options.ways};
  if (adapter) return PythonTarget{std::move(command), std::string(text.substr(text.find(':') + 1))};
  command.file = target;
  return PythonTarget{std::move(command), script->name};
}

WorkerCommand runtime_command(std::string_view text, Trust trust, const ResolveOptions& options) {
  std::error_code ignored;
  const bool script = text.ends_with(".py");
  const std::string target(text);
  if (script && trust == Trust::file)
    throw usage_error("the file names the path " + one_line(text) +
                      " as its runtime: a path comes from the command line alone (--on PATH)");
  if (script && !fs::is_regular_file(target, ignored))
    throw Error(Exit::no_subject, "there is no file " + one_line(text));
  const bool plain = std::ranges::all_of(text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
  const fs::path shipped = python_folder() / "attest" / "runtimes" / (target + ".py");
  if (!script && !(plain && fs::is_regular_file(shipped, ignored)))
    throw usage_error("there is no runtime of models '" + one_line(text) +
                      "': it is onnxruntime, openvino, torch (of a program that torch exported), or a script.py that "
                      "declares one (docs/graphs.md)");
  return {python_worker("runtime:" + target, options),
          target,
          log_for("runtime-" + target, options.log_folder),
          limits_of(options, !script),
          script ? target : std::string(),
          options.ways};
}

WorkerCommand export_command(const fs::path& program, const ResolveOptions& options) {
  WorkerCommand command{{}, program.string(), log_for("exported-program", options.log_folder), options.limits};
  command.argv = python_worker("exported", options);
  command.argv.push_back(program.string());
  command.argv.push_back((private_folder() / fmt::format("exported-{}.onnx", ::getpid())).string());
  return command;
}

std::unique_ptr<SubjectFactory> resolve(std::string_view text, Trust trust, const ResolveOptions& options) {
  if (std::unique_ptr<SubjectFactory> builtin = builtin_subject(text, options.policy)) return builtin;
  if (is_among(plugin_adapters(), text)) return plugin_adapter(text, options);
  if (is_among(python_adapters(), text)) {
    refuse_in_process(text, options);
    return python_subject(text, options);
  }
  if (std::unique_ptr<SubjectFactory> found = from_path(text, trust, options)) return found;
  std::vector<std::string> names;
  std::vector<std::vector<ListedSubject>> lists;
  for (const auto list : {builtin_subjects, fault_subjects})
    for (const std::string_view op : builtin_ops()) lists.push_back(list(op));
  lists.push_back(adapter_subjects());
  for (const auto& list : lists)
    for (const ListedSubject& subject : list)
      // The names that begin like "builtin:nope" are the built-in ones.
      if (text.find(':') == std::string_view::npos || subject.name.starts_with(text.substr(0, text.find(':') + 1)))
        names.push_back(subject.name);
  const std::string unknown = "there is no subject '" + one_line(text) + "'";
  if (text.ends_with(".onnx"))
    throw usage_error(unknown + ": `attest fuzz` and `attest check` take ONNX models (docs/graphs.md)");
  if (names.empty())
    throw usage_error(
        unknown +
        ": it is builtin:NAME, fault:NAME, plugin.so[:NAME], script.py[:NAME] or one of attest list subjects");
  throw usage_error(unknown + ": " + nearest(names, text));
}

}  // namespace attest
