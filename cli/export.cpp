#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "cli/model.hpp"
#include "cli/settings.hpp"
#include "cli/subject_option.hpp"
#include "cli/system_name.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/check.hpp"
#include "report/export.hpp"
#include "report/package.hpp"
#include "report/wrap.hpp"
#include "subjects/script.hpp"

namespace attest::cli {
namespace {

// Tells whether the subject answered the reproducer, into its outputs, what else the law looks at among them; an export
// does not fail for want of it. `further`: it is asked only where the law looks at more than the first.
bool run_subject(const Settings& settings, const engine::Entry& entry, std::unique_ptr<ops::Exchange>& call,
                 bool further = false) {
  bool asks_further = false;
  try {
    const auto factory = open_subject_of_entry(settings, entry);
    if (const ops::Law* law = ops::find_law(entry.property, entry.problem.op()))
      asks_further = call->ask_for(*law, entry.contract, factory->info());
    if (further && !asks_further) return false;
    const auto subject = factory->open();
    for (const engine::EarlierCall& earlier : entry.after) {
      const auto before = earlier.problem.op().exchange(earlier.problem);
      subject->run_one(before->call());
    }
    const CallResult result = subject->run_one(call->call());
    if (result.status == CallStatus::done) return true;
    std::cerr << "attest: the subject gave no output (" << result.message << "); the export goes without it\n";
  } catch (const Error& error) {
    std::cerr << "attest: " << error.what() << "; the export goes without the subject's output\n";
  }
  if (asks_further) call = entry.problem.op().exchange(entry.problem);  // without what nobody wrote
  return false;
}

// Python that runs the subject without attest, empty where there is none; nullopt if the subject cannot be asked here.
std::optional<std::string> script_of(const Settings& settings, const engine::Entry& entry, const ops::Exchange& call) {
  if (!has_subject(settings, entry)) return std::nullopt;
  try {
    const std::filesystem::path output = settings.text("output").value_or("script.py");
    return subject_code(subject_text(settings, entry), call.call(), resolve_options(settings),
                        std::filesystem::absolute(output).parent_path());
  } catch (const Error& error) {
    std::cerr << "attest: " << error.what() << "; the export goes without the subject\n";
    return std::nullopt;
  }
}

// The documents that the subject quotes; none where it cannot be asked here.
std::vector<Quote> documents_of(const Settings& settings, const engine::Entry& entry) {
  if (!has_subject(settings, entry)) return {};
  try {
    return open_subject_of_entry(settings, entry)->info().documents;
  } catch (const Error& error) {
    std::cerr << "attest: " << error.what() << "; the export goes without its documents\n";
    return {};
  }
}

void write_text(const std::string& text, const std::optional<std::string>& path) {
  if (!path) {
    report::verbatim_stdout() << text;
    return;
  }
  std::ofstream file(*path);
  file << text << std::flush;
  if (!file) throw usage_error(fmt::format("-o {}: the file cannot be written; check its folder", *path));
}

int export_entry(const Settings& settings, const std::string& path) {
  constexpr std::string_view formats[] = {"python", "npz", "issue", "onnx", "polygraphy", "trtexec", "cpp"};
  const auto format = settings.text("to");
  if (!format || std::ranges::find(formats, *format) == std::end(formats))
    throw usage_error(
        fmt::format("--to {}: this version exports {}", format.value_or("(nothing)"), fmt::join(formats, ", ")));
  if (is_model_entry(path)) return export_model_entry(settings, path, *format);
  const engine::Entry entry = engine::read_entry(path);
  if (entry.subject_b)
    throw usage_error(
        fmt::format("{} is of two subjects, and an export holds one call: `attest check SUBJECT --problem TEXT "
                    "--corpus DIR` on the one that is outside its bound stores an entry of its own",
                    path));
  auto call = entry.problem.op().exchange(entry.problem);
  const auto output = settings.text("output");
  if (*format == "cpp") {
    write_text(report::cpp_program(entry, *call), output);
    return 0;
  }
  if (*format == "onnx" || *format == "polygraphy" || *format == "trtexec") {
    if (!output) throw usage_error(fmt::format("--to {} needs -o DIR: it is several files", *format));
    std::cout << report::write_packages(*format, report::packaged(entry.problem.op().graphs(*call, entry.contract)),
                                        *output);
    return 0;
  }
  if (*format == "npz") {
    if (!output) throw usage_error("--to npz needs -o FILE: it is no text for a terminal");
    const bool answered = has_subject(settings, entry) && run_subject(settings, entry, call);
    report::write_npz({entry, *call, answered, {}, {}}, *output);
    return 0;
  }
  const bool further = entry.property == engine::stage_bound_name && run_subject(settings, entry, call, true);
  const std::optional<std::string> code = script_of(settings, entry, *call);
  std::vector<report::Exported::Earlier> earlier;
  if (code && !code->empty())
    for (const engine::EarlierCall& before : entry.after) {
      auto its = before.problem.op().exchange(before.problem);
      std::string made = script_of(settings, entry, *its).value_or("");
      earlier.push_back({before, std::move(its), std::move(made)});
    }
  const bool answered = further || (code && code->empty() && run_subject(settings, entry, call));
  const report::Exported exported{entry, *call, answered, code.value_or(""), std::move(earlier)};
  write_text(*format == "issue" ? report::issue_text(exported, documents_of(settings, entry), system_name())
                                : report::python_script(exported),
             output);
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("export", "a corpus file as a script or as tensors, for somebody without attest");
  auto file = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("FILE", *file, "a corpus file")->type_name("")->required();
  std::vector<Option> options{
      {"to", "FORMAT", "what to write: python, npz, issue, onnx, polygraphy, trtexec or cpp"},
      {"output", "FILE", "where to (python, issue and cpp: stdout); a folder for onnx, polygraphy and trtexec", "o"},
      {"subject", "SUBJECT", "run this subject instead of the one the file names"},
      {"on", "RUNTIME", "of an entry of a model whose runtime is a script that you have not run before: the script"}};
  for (const Option& option : subject_options()) options.push_back(option);
  settings->declare(*verb, options);
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("export");
      return export_entry(*settings, *file);
    };
  });
}

}  // namespace attest::cli
