#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "cli/help.hpp"
#include "cli/settings.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "report/wrap.hpp"

namespace attest::cli {
namespace {

// Completes verbs, then options of the verb; where a word begins with no dash, files.
std::string for_bash(const CLI::App& app) {
  std::string verbs, cases;
  for (const CLI::App* verb : app.get_subcommands({})) {
    verbs += " " + verb->get_name();
    cases += fmt::format("    {}) words='{}' ;;\n", verb->get_name(), fmt::join(option_names(*verb), " "));
  }
  return fmt::format(R"(_attest() {{
  local words='' word=${{COMP_WORDS[COMP_CWORD]}}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    words='help{}'
  elif [[ ${{COMP_WORDS[1]}} == help ]]; then
    words='{}'
  elif [[ $word == -* ]]; then
    case ${{COMP_WORDS[1]}} in
{}    esac
  fi
  [[ -n $words ]] && mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -F _attest attest
)",
                     verbs, verbs.substr(1), cases);
}

// A word of fish in single quotes.
std::string quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') all += '\\';
    all += c;
  }
  return all + "'";
}

std::string for_fish(const CLI::App& app) {
  std::string all = "complete -c attest -n __fish_use_subcommand -a help -d 'options and examples of a verb'\n";
  for (const CLI::App* verb : app.get_subcommands({})) {
    for (const std::string_view where : {"__fish_use_subcommand", "'__fish_seen_subcommand_from help'"})
      all += fmt::format("complete -c attest -n {} -a {} -d {}\n", where, verb->get_name(),
                         quoted(verb->get_description()));
    for (const CLI::Option* option : verb->get_options())
      for (const std::string& name : option->get_lnames())
        all += fmt::format("complete -c attest -n '__fish_seen_subcommand_from {}' -l {} -d {}{}\n", verb->get_name(),
                           name, quoted(option->get_description()), option->get_items_expected_max() == 0 ? "" : " -r");
  }
  return all;
}

}  // namespace

void add_completion(CLI::App& app, Run& run) {
  CLI::App* verb = app.add_subcommand("completion", "what a shell reads to complete verbs and options");
  auto shell = std::make_shared<std::string>();
  Settings().declare(*verb, {});  // a file of settings may have a table of each verb
  verb->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  verb->callback([&app, &run, shell] {
    run = [&app, shell]() -> int {
      if (*shell == "fish")
        report::verbatim_stdout() << for_fish(app);
      else if (*shell == "zsh")  // which reads what is written for bash
        report::verbatim_stdout() << "autoload -U +X bashcompinit && bashcompinit\n" << for_bash(app);
      else if (*shell == "bash")
        report::verbatim_stdout() << for_bash(app);
      else
        throw usage_error("completion: SHELL must be bash, zsh or fish, not '" + *shell + "'");
      return 0;
    };
  });
}

}  // namespace attest::cli
