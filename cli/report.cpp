// report: prints the content of a campaign folder, for people and for CI. Starts no subject.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/outputs.hpp"
#include "cli/settings.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "report/ci.hpp"
#include "report/html.hpp"
#include "report/record.hpp"
#include "report/text.hpp"

namespace attest::cli {
namespace {

namespace fs = std::filesystem;

int write_report(const Settings& settings, const fs::path& folder) {
  if (!fs::is_directory(folder)) throw usage_error(folder.string() + " is no folder: report takes that of a campaign");
  const nlohmann::json record = report::read_record(folder);
  const auto html = settings.text("output"), junit = settings.text("junit"), sarif = settings.text("sarif");
  const bool alone = !html && (junit || sarif);
  if (!alone) {
    const std::string path = html.value_or((folder / "report.html").string());
    OutputFile file(path, "-o");
    write_text(file, report::html_page(record));
    if (!file.is_stdout()) std::cout << report::printable(path) << "\n";
  }
  if (junit) {
    OutputFile file(*junit, "--junit");
    write_text(file, report::junit_xml(record));
  }
  if (sarif) {
    OutputFile file(*sarif, "--sarif");
    write_json(file, report::sarif_json(record));
  }
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("report", "one HTML file of a campaign folder; JUnit's XML and SARIF of it");
  auto folder = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("DIR", *folder, "a campaign folder (fuzz -o DIR)")->type_name("")->required();
  settings->declare(*verb, {{"output", "FILE", "the HTML file (DIR/report.html); - is stdout", "o"},
                            {"junit", "FILE", "JUnit's XML, in place of HTML unless -o is given too"},
                            {"sarif", "FILE", "SARIF 2.1.0, likewise"}});
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("report");
      return write_report(*settings, *folder);
    };
  });
}

}  // namespace attest::cli
