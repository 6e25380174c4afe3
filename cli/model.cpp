#include "cli/model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/campaign_option.hpp"
#include "cli/interrupt.hpp"
#include "cli/model_runtimes.hpp"
#include "cli/outputs.hpp"
#include "cli/provenance.hpp"
#include "cli/subject_option.hpp"
#include "cli/system_name.hpp"
#include "core/error.hpp"
#include "core/glob.hpp"
#include "engine/file.hpp"
#include "graph/weights.hpp"
#include "models/exhibit.hpp"
#include "models/judged.hpp"
#include "models/lengths.hpp"
#include "models/tensors.hpp"
#include "report/ci.hpp"
#include "report/export_model.hpp"
#include "report/models.hpp"
#include "report/package.hpp"
#include "report/record.hpp"
#include "report/text.hpp"
#include "report/wrap.hpp"
#include "subjects/exported_program.hpp"
#include "subjects/resolve.hpp"
#include "subjects/started.hpp"

namespace attest::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t largest_model = std::uintmax_t{1} << 31;  // the most that protobuf holds
constexpr std::uint64_t check_cases = 200;
constexpr double fuzz_seconds = 30;

// Reads a graph; that of a program is the one that torch makes of it, with the lengths that it was exported for.
ExportedProgram read_model_file(const Settings& settings, const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) throw usage_error(fmt::format("{}: there is no such file", file.string()));
  if (is_program(file)) return exported_program(file, runtime_options(settings, file));
  return {graph::with_weights(engine::read_file(file, largest_model), file)};
}

// The constraints of the command line and of the model itself (`own`).
graph::Constraints constraints_of(const Settings& settings,
                                  const std::vector<std::pair<std::string, std::string>>& own) {
  graph::Constraints constraints;
  for (const auto& [axis, lengths] : own) graph::constrain(constraints, "size." + axis, lengths);
  for (const auto& [key, value] : settings.graph()) graph::constrain(constraints, key, value);
  for (const std::string& word : split_words(settings.text("constrain").value_or(""), ' ')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos)
      throw usage_error(
          fmt::format("{}: '{}' is not key=value, as in size.batch=1..8", settings.origin("constrain"), word));
    graph::constrain(constraints, std::string_view(word).substr(0, equals), std::string_view(word).substr(equals + 1));
  }
  return constraints;
}

void refuse_keys(const Settings& settings, const std::vector<std::string>& keys, const std::string& why) {
  for (const std::string& key : keys)
    if (settings.text(key)) throw usage_error(fmt::format("{} {}", settings.origin(key), why));
}

void read_model_laws(const Settings& settings, models::CampaignOptions& options) {
  if (settings.text("laws") == "all")
    options.further = std::nullopt;
  else if (const auto laws = settings.integer("laws", 0, 1000))
    options.further = *laws;
  const auto glob = settings.text("property");
  if (!glob) return;
  std::vector<std::string_view> names;
  for (const models::Law& law : models::all_laws()) names.push_back(law.name);
  if (std::ranges::none_of(names, [&](std::string_view name) { return glob_matches(*glob, name); }))
    throw usage_error(fmt::format("{} {}: no law of models matches: there are {}", settings.origin("property"), *glob,
                                  fmt::join(names, ", ")));
  options.law_glob = *glob;
}

models::CampaignOptions options_of(const Settings& settings, const std::string& verb, const fs::path& model,
                                   const ExportedProgram& file, bool one_problem) {
  // Refuses options of the engine's single campaign that this one does not have.
  refuse_keys(settings,
              {"op", "repeat", "shard", "assume", "sizes", "no-avoid", "no-statistics", "events", "probe-first",
               "no-probe-first", "probe-cache", "in-process", "seed-fd"},
              "is not for models (docs/graphs.md)");
  if (one_problem)
    refuse_keys(settings, {"seed", "cases", "time", "laws", "constrain", "output"},
                "is for random problems, and --problem is one as it stands: leave one of them out");
  const bool fuzz = verb == "fuzz";
  models::CampaignOptions options;
  options.model = model;
  options.precision = graph::precision_from_text(settings.text("policy").value_or("literal"));
  options.constraints = constraints_of(settings, file.lengths);
  options.jobs = read_jobs(settings);
  options.shrink_calls = static_cast<std::int64_t>(settings.integer("shrink-budget", 1, 1'000'000'000).value_or(1000));
  read_corpora(settings, [&options](const std::string& corpus, const std::optional<engine::Waiver>& waiver) {
    std::ranges::move(models::known_failures(corpus, waiver), std::back_inserter(options.known));
  });
  options.continue_after_failure = fuzz || one_problem || settings.flag("continue-after-failure");
  read_model_laws(settings, options);
  if (one_problem) {
    if (const auto corpus = settings.text("corpus")) options.corpus = *corpus;
    return options;
  }
  const CampaignExtent extent = read_extent(settings, fuzz);
  options.seed = extent.seed;
  options.cases = extent.cases;
  options.seconds = extent.seconds;
  if (!options.cases && !options.seconds && !extent.forever) {
    if (fuzz)
      options.seconds = fuzz_seconds;
    else
      options.cases = check_cases;
  }
  options.folder = campaign_folder(settings, fuzz, model.filename().string(), options.seed);
  if (const auto corpus = settings.text("corpus"))
    options.corpus = *corpus;
  else if (!options.folder.empty())
    options.corpus = options.folder / "corpus";
  return options;
}

std::string opening(const std::string& verb, const models::CampaignOptions& options,
                    const std::vector<models::Subject>& subjects) {
  std::string line = fmt::format("attest {} {}", verb, options.model.string());
  for (const models::Subject& subject : subjects)
    line += fmt::format("{} {} {} ({})", &subject == subjects.data() ? " on" : " and", subject.name,
                        subject.runtime->info().version, fmt::join(subject.levels, ", "));
  line += fmt::format(", seed {}, {}", options.seed, options.precision.name);
  if (options.cases) line += fmt::format(", {}", report::counted(*options.cases, "problem"));
  if (options.seconds) line += ", " + report::duration(*options.seconds);
  return report::printable(line) + "\n";
}

}  // namespace

bool names_model(std::string_view subject) { return subject.ends_with(".onnx") || subject.ends_with(".pt2"); }

std::vector<Option> model_options() {
  return under("Models (.onnx, .pt2)",
               {{"on", "RUNTIME,...",
                 "onnxruntime, onnxruntime:LEVEL[+PROVIDER[+KEY=VALUE...]], openvino, torch (of a program, "
                 ".pt2), or a script.py that declares a runtime (onnxruntime; of a program torch)"},
                {"inputs", "FILE|DIR",
                 "inputs of your own, that problems are drawn around: .npz, Polygraphy's --save-inputs JSON, or a "
                 "folder of these"},
                {"constrain", "KEY=VALUE ...",
                 "what its inputs may be, 'size.batch=1..8 values.mask=prefix,all role.kind=ids:2'; also [graph] "
                 "of attest.toml"}});
}

void refuse_model_options(const Settings& settings) {
  refuse_keys(settings, {"on", "constrain", "inputs"},
              "is for models: SUBJECT must be a file that ends with .onnx or .pt2");
}

int run_model(const Settings& settings, const std::string& verb, const std::string& model) {
  const auto problem = verb == "check" ? settings.text("problem") : std::nullopt;
  const Outputs outputs(settings);
  ExportedProgram file = read_model_file(settings, model);
  models::CampaignOptions options = options_of(settings, verb, model, file, problem.has_value());
  const models::Part part = models::part_of_file(std::move(file.onnx), model);
  if (const auto inputs = settings.text("inputs")) {
    options.given = models::read_given(*inputs, *part.program, options.constraints);
    options.constraints.given = options.given.sets;
  }
  std::string taken;  // lengths
  if (!problem) {
    const std::string said = to_text(options.constraints);
    options.constraints = models::with_lengths_taken(*part.program, options.constraints);
    if (const std::string all = to_text(options.constraints); all != said)
      taken = fmt::format("lengths that the graph takes, with what is said of it: {}\n", report::printable(all));
  }
  const graph::Family family(*part.program, options.constraints);
  std::optional<graph::Problem> given;
  if (problem) {
    given = graph::problem_from_text(*problem);
    family.check(*given);
  }
  note_started(model);
  std::vector<models::Subject> subjects =
      subjects_of(settings, model, options.folder.empty() ? fs::path() : options.folder / "logs");
  options.interrupt = end_on_interrupt();
  const bool quiet = outputs.stdout_taken();
  const std::vector<models::KnownPart> parts = models::known_parts(family, options.precision);
  if (!quiet)
    std::cout << opening(verb, options, subjects) << report::model_text(part, family, model) << taken
              << report::parts_text(parts) << std::flush;
  const models::Observer observer =
      report::models_observer({std::cout, std::cerr, progress_is_live(), quiet, outputs.look});
  models::Summary summary = given ? models::run_problem(part, subjects, *given, options, observer)
                                  : models::run_campaign(part, subjects, options, observer);
  summary.parts = parts;
  if (!quiet) std::cout << "\n" << report::summary_text(summary, outputs.look);
  nlohmann::ordered_json record = report::summary_json(summary);
  if (outputs.json) write_json(*outputs.json, record);
  record["run"] = provenance();
  if (outputs.junit) write_text(*outputs.junit, report::junit_xml(nlohmann::json(record)));
  if (outputs.sarif) write_json(*outputs.sarif, report::sarif_json(nlohmann::json(record)));
  if (!options.folder.empty()) {
    if (summary.coverage) record["coverage"] = report::coverage_json(*summary.coverage);
    report::write_record(options.folder, record);
  }
  return static_cast<int>(summary.exit());
}

bool is_model_entry(const fs::path& file) {
  constexpr std::uintmax_t largest = 1 << 20;
  std::error_code error;
  if (fs::file_size(file, error) > largest || error) return false;
  return models::is_entry(engine::read_file(file, largest));
}

namespace {

// Finds an entry's model and runtime: those it names if this user has started them before, or those of --subject and
// --on.
models::Resolvers resolvers_of(const Settings& settings) {
  const auto refusal = [](const std::string& sentence) { return Error(Exit::no_subject, sentence); };
  const auto trusted = [refusal](const fs::path& path, std::string_view what, std::string_view option) {
    std::error_code error;
    if (!fs::is_regular_file(path, error))
      throw refusal(fmt::format("the {} of the entry is {}, and there is no such file: name where it is now, {} PATH",
                                what, path.string(), option));
    if (!was_started(path))
      throw refusal(fmt::format(
          "the {} of the entry is {}, which you have not run before, and no corpus file starts a program: if "
          "you trust it, {} {}",
          what, path.string(), option, report::shell_quoted(path.string())));
    return path;
  };
  models::Resolvers resolvers;
  resolvers.model_bytes = [&settings, trusted](const models::Entry& entry) {
    const auto given = settings.text("subject");
    return read_model_file(settings, given ? fs::path(*given) : trusted(entry.model, "model", "--subject")).onnx;
  };
  resolvers.runtime = [&settings, trusted](const models::Entry& entry) {
    if (is_saved(entry)) return models::saved_runtime(entry);
    return runtime_of(settings, entry, [&] { return trusted(entry.runtime_file, "runtime", "--on"); });
  };
  return resolvers;
}

// Text for a terminal, or into -o FILE.
void write_text(const Settings& settings, const std::string& text) {
  if (const auto output = settings.text("output"))
    engine::write_file(*output, text);
  else
    report::verbatim_stdout() << text;
}

// The runtime of an entry; none where it cannot be asked here, which an export does not fail for.
std::unique_ptr<models::Runtime> asked_runtime(const models::Resolvers& resolvers, const models::Entry& entry) {
  try {
    return resolvers.runtime(entry);
  } catch (const Error& error) {
    std::cerr << "attest: " << error.what() << "; the export goes without what the runtime gives\n";
    return nullptr;
  }
}

report::Packaged packaged(const models::Exhibit& exhibit) {
  report::Packaged one{exhibit.name, exhibit.model, exhibit.feeds, {}};
  for (const graph::Spread& spread : exhibit.expected) one.expected.push_back(spread.reference);
  return one;
}

}  // namespace

models::Replayed replay_model_entry(const Settings& settings, const fs::path& file) {
  return models::replay_entry(file, resolvers_of(settings), settings.flag("expect-pass"));
}

int explain_model_entry(const Settings& settings, const fs::path& file) {
  std::unique_ptr<OutputFile> json;
  if (const auto path = settings.text("json")) json = std::make_unique<OutputFile>(*path, "--json");
  const models::Summary summary = models::explain_entry(file, resolvers_of(settings));
  const Exit exit = summary.findings.empty() ? summary.exit() : Exit::found;
  if (!json || !json->is_stdout())
    std::cout << fmt::format("attest explain {}\n", report::printable(file.string()))
              << report::summary_text(summary, read_look(settings));
  if (json) {
    nlohmann::ordered_json object = report::summary_json(summary);
    object["verb"] = "explain";
    object["file"] = file.string();
    object["fails"] = !summary.findings.empty();
    write_json(*json, object);
  }
  return static_cast<int>(exit);
}

int shrink_model_entry(const Settings& settings, const fs::path& file) {
  const auto calls = static_cast<std::int64_t>(settings.integer("shrink-budget", 1, 1'000'000'000).value_or(10'000));
  // CORPUS/MODEL/FILE.json: the corpus is two folders up.
  const fs::path corpus = settings.text("corpus").value_or(fs::absolute(file).parent_path().parent_path().string());
  const std::string before = models::read_entry(file).problem;
  const models::ShrunkEntry shrunk = models::shrink_entry(file, resolvers_of(settings), calls, corpus);
  if (!shrunk.fails) {
    std::cout << report::printable(shrunk.sentence) << "\n";
    return static_cast<int>(Exit::held);
  }
  std::cout << fmt::format("{}\n  from     {}\n  problem  {}\n  witness  {}\n",
                           shrunk.entry.minimal ? "no change makes it simpler" : "the budget ended",
                           report::printable(before), report::printable(shrunk.entry.problem),
                           report::printable(shrunk.entry.reason));
  if (!shrunk.written.empty()) std::cout << "  written  " << report::printable(shrunk.written.string()) << "\n";
  return static_cast<int>(Exit::found);
}

int export_model_entry(const Settings& settings, const fs::path& file, const std::string& format) {
  const models::Entry entry = models::read_entry(file);
  const models::Resolvers resolvers = resolvers_of(settings);
  const auto output = settings.text("output");
  const bool text = format == "python" || format == "issue";
  if (format == "cpp")
    throw usage_error("--to cpp: it is for kernels, and this entry is of a model, which a suite in C++ does not call");
  if (!text && !output) throw usage_error(fmt::format("--to {} needs -o {}", format, format == "npz" ? "FILE" : "DIR"));
  const std::unique_ptr<models::Runtime> runtime = text || format == "npz" ? asked_runtime(resolvers, entry) : nullptr;
  const auto segment = models::segment_of(file, entry, runtime.get());
  const auto whole = [&] { return models::whole_of(entry, models::model_of(entry, resolvers), runtime.get()); };
  if (text) {
    const models::Exhibit exhibit = segment ? *segment : whole();
    const fs::path beside = output ? fs::absolute(*output).parent_path() : fs::current_path();
    fs::path graph_file = segment ? fs::path(file) : entry.model;
    if (segment) graph_file.replace_extension(".onnx");
    const report::ExportedModel exported{entry, exhibit, fs::absolute(graph_file).lexically_proximate(beside)};
    write_text(settings,
               format == "python" ? report::python_script(exported) : report::issue_text(exported, system_name()));
    return 0;
  }
  const models::Exhibit exhibit = whole();
  if (format == "npz") {
    models::NpzFile tensors;
    tensors.add(exhibit.before, exhibit.feeds);
    for (std::size_t i = 0; i < exhibit.expected.size(); ++i) {
      const std::string& name = exhibit.model.outputs[i].name;
      tensors.add("expected." + name, exhibit.expected[i].reference);
      if (exhibit.got) tensors.add("got." + name, (*exhibit.got)[i]);
    }
    engine::write_file(*output, tensors.bytes());
    return 0;
  }
  if (!entry.after.empty())
    std::cerr << fmt::format(
        "attest: this fails after {} alone, which --to {} does not carry: --to npz and python do\n",
        report::counted(entry.after.size(), "earlier call"), format);
  std::vector<report::Packaged> graphs{packaged(exhibit)};
  if (segment) graphs.push_back(packaged(*segment));
  std::cout << report::write_packages(format, graphs, *output);
  return 0;
}

}  // namespace attest::cli
