// man: manual pages, from the tables that help and completion have.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help.hpp"
#include "cli/settings.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/file.hpp"
#include "report/wrap.hpp"

namespace attest::cli {
namespace {

namespace fs = std::filesystem;

// Text as roff takes it: no dash is a hyphen, no line a request.
std::string roff(std::string_view text) {
  std::string all;
  for (const char c : text) {
    if (c == '\\')
      all += "\\e";
    else if (c == '-')
      all += "\\-";
    else if (c == '\'')
      all += "\\(aq";
    else if (c == '.' && all.empty())
      all += "\\&.";
    else
      all += c;
  }
  return all;
}

// A paragraph behind its tag.
std::string tagged(std::string_view tag, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", tag, text.empty() ? "\\&" : roff(text));
}

std::string tag_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "\\-" : ", \\-") + roff(name);
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "\\-\\-" : ", \\-\\-") + roff(name);
  const std::string value = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  return "\\fB" + names + "\\fR" + (value.empty() ? "" : " \\fI" + roff(value) + "\\fR");
}

std::string page_name(const CLI::App& app, const CLI::App& verb) {
  return &app == &verb ? app.get_name() : app.get_name() + "-" + verb.get_name();
}

std::string options_of(const CLI::App& verb) {
  std::string all;
  for (const std::string& group : verb.get_groups()) {
    const auto options =
        verb.get_options([&](const CLI::Option* one) { return one->get_group() == group && !one->get_positional(); });
    if (options.empty()) continue;
    if (!all.empty()) all += ".SS " + roff(group) + "\n";
    for (const CLI::Option* option : options) all += tagged(tag_of(*option), option->get_description());
  }
  return all;
}

// The page of a verb, or of attest itself.
std::string page(const CLI::App& app, const CLI::App& verb) {
  const bool whole = &app == &verb;
  std::string name = page_name(app, verb), upper = name, synopsis = whole ? "attest" : "attest " + verb.get_name();
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text = fmt::format(".TH {} 1 \"\" \"attest {}\" \"attest\"\n.SH NAME\n{} \\- {}\n", roff(upper),
                                 ATTEST_VERSION, roff(name), roff(verb.get_description()));
  text += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR {}", roff(synopsis), whole ? "\\fIVERB\\fR ..." : "[\\fIoptions\\fR]");
  const auto positionals = verb.get_options([](const CLI::Option* one) { return one->get_positional(); });
  for (const CLI::Option* one : positionals) {
    const std::string name_of = "\\fI" + roff(one->get_name(true)) + "\\fR";
    text += " " + (one->get_required() ? name_of : "[" + name_of + "]");
  }
  text += "\n";
  if (whole) {
    text += ".SH VERBS\n";
    for (const CLI::App* each : app.get_subcommands({}))
      text += tagged("\\fB" + roff(page_name(app, *each)) + "\\fR(1)", each->get_description());
  }
  if (!positionals.empty()) text += ".SH ARGUMENTS\n";
  for (const CLI::Option* one : positionals)
    text += tagged("\\fI" + roff(one->get_name(true)) + "\\fR", one->get_description());
  text += ".SH OPTIONS\n" + options_of(verb) + ".SH EXAMPLES\n";
  for (const Example& example : examples_of(whole ? "" : verb.get_name()))
    text += tagged("\\fB" + roff(example.line) + "\\fR", example.says);
  text += ".SH \"EXIT STATUS\"\n";
  for (const Status& status : statuses()) text += tagged(status.number, status.says);
  return text + ".SH \"SEE ALSO\"\n" + (whole ? "" : "\\fBattest\\fR(1). ") +
         "The pages of share/doc/attest, tutorial.md and cli.md first.\n";
}

}  // namespace

void add_man(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("man", "manual pages of attest and its verbs");
  auto name = std::make_shared<std::string>();
  auto settings = std::make_shared<Settings>();
  verb->add_option("VERB", *name, "whose page (attest's own)")->type_name("");
  settings->declare(*verb, {{"output", "DIR", "writes all pages there, attest.1 and one for each verb", "o"}});
  verb->callback([&app, &run, name, settings] {
    run = [&app, name, settings]() -> int {
      settings->complete("man");
      const std::vector<CLI::App*> verbs = app.get_subcommands({});
      if (const auto folder = settings->text("output")) {
        std::error_code error;  // what cannot be written there says so
        fs::create_directories(*folder, error);
        engine::write_file(fs::path(*folder) / "attest.1", page(app, app));
        for (const CLI::App* each : verbs)
          engine::write_file(fs::path(*folder) / (page_name(app, *each) + ".1"), page(app, *each));
        return 0;
      }
      const auto found = std::ranges::find(verbs, *name, [](const CLI::App* one) { return one->get_name(); });
      if (!name->empty() && found == verbs.end())
        throw usage_error("man: there is no verb '" + *name + "'. `attest --help` lists them");
      report::verbatim_stdout() << page(app, name->empty() ? app : **found);
      return 0;
    };
  });
}

}  // namespace attest::cli
