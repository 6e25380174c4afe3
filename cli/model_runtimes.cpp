#include "cli/model_runtimes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cli/subject_option.hpp"
#include "core/error.hpp"
#include "report/text.hpp"
#include "subjects/started.hpp"

namespace attest::cli {
namespace {

namespace fs = std::filesystem;

// "onnxruntime", "onnxruntime:all", "script.py:O2": a runtime, and one of its builds or none. A build may have further
// colons.
struct RuntimeWord {
  std::string runtime, level;
};

RuntimeWord runtime_word(const std::string& text) {
  constexpr std::string_view script = ".py";
  std::size_t colon = text.find(std::string(script) + ":");
  if (colon != std::string::npos)
    colon += script.size();
  else if (!text.ends_with(script))
    colon = text.find(':');
  if (colon == std::string::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

// Tells whether a build "LEVEL+PROVIDER+key=value" hands options over.
bool has_options(const std::string& build) { return build.find('=') != std::string::npos; }

models::Subject opened(const std::string& name, const std::vector<std::string>& builds, const ResolveOptions& options) {
  models::Subject subject;
  WorkerCommand command = runtime_command(name, Trust::command_line, options);
  command.builds = builds;
  if (!command.file.empty()) {
    subject.file = fs::absolute(command.file);
    note_started(command.file);
    say_what_is_not_kept_inside();
  }
  subject.runtime = models::open_runtime(std::move(command));
  subject.name = subject.file.empty() ? name : "external:" + subject.runtime->info().name;
  for (const std::string& build : builds)
    if (has_options(build)) note_build(subject.name + ":" + build);
  return subject;
}

}  // namespace

bool is_program(const fs::path& file) { return file.extension() == ".pt2"; }

ResolveOptions runtime_options(const Settings& settings, const fs::path& model) {
  ResolveOptions options = resolve_options(settings);
  if (!is_program(model)) return options;
  // The adapter `torch` reads the program's path here, and takes this time to compile.
  ::setenv("ATTEST_PROGRAM", fs::absolute(model).c_str(), 1);
  constexpr std::chrono::minutes compiling{2};
  if (!settings.text("timeout")) options.limits.call = options.limits.once = compiling;
  return options;
}

std::vector<std::string> split_words(std::string_view text, char between) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(between), text.size());
    if (end > 0) found.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

std::vector<models::Subject> subjects_of(const Settings& settings, const fs::path& model, const fs::path& logs) {
  ResolveOptions options = runtime_options(settings, model);
  options.log_folder = logs;
  std::vector<RuntimeWord> words;
  for (const std::string& word :
       split_words(settings.text("on").value_or(is_program(model) ? "torch" : "onnxruntime"), ','))
    words.push_back(runtime_word(word));
  std::vector<models::Subject> subjects;
  std::vector<std::string> names;
  for (const RuntimeWord& named : words) {
    const auto known = std::ranges::find(names, named.runtime);
    const auto at = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) {
      std::vector<std::string> asked;  // by any of the words
      for (const RuntimeWord& word : words)
        if (word.runtime == named.runtime && !word.level.empty()) asked.push_back(word.level);
      subjects.push_back(opened(named.runtime, asked, options));
      names.push_back(named.runtime);
    }
    models::Subject& subject = subjects[at];
    const auto& builds = subject.runtime->info().builds;
    if (!named.level.empty() && std::ranges::find(builds, named.level) == builds.end())
      throw usage_error(
          fmt::format("{} has no build '{}': it has {}", named.runtime, named.level, fmt::join(builds, ", ")));
    // All of them, but for other providers, which are asked by name.
    for (const std::string& level : builds)
      if (named.level.empty() ? level.find('+') == std::string::npos : level == named.level)
        if (std::ranges::find(subject.levels, level) == subject.levels.end()) subject.levels.push_back(level);
  }
  if (subjects.empty()) throw usage_error(settings.origin("on") + " names no runtime");
  return subjects;
}

std::unique_ptr<models::Runtime> runtime_of(const Settings& settings, const models::Entry& entry,
                                            const std::function<fs::path()>& script) {
  const auto given = settings.text("on");
  const RuntimeWord named = runtime_word(given.value_or(""));
  const bool external = entry.runtime.starts_with("external:");
  const std::string name = given ? named.runtime : external ? script().string() : entry.runtime;
  const Trust trust = given || external ? Trust::command_line : Trust::file;
  const std::string& build = entry.build.level;
  if (has_options(build) && named.level != build && !was_build_named(entry.runtime + ":" + build))
    throw Error(
        Exit::no_subject,
        fmt::format(
            "the build of the entry is '{}', which you have not run before, and no corpus file hands options to a "
            "runtime, which may name a library: if you trust it, --on {}",
            report::printable(build), report::shell_quoted(name + ":" + build)));
  const fs::path model = settings.text("subject").value_or(entry.model.string());
  WorkerCommand command = runtime_command(name, trust, runtime_options(settings, model));
  command.builds = {build};
  return models::open_runtime(std::move(command));
}

}  // namespace attest::cli
