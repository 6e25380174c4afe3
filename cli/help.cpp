#include "cli/help.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>

#include "report/wrap.hpp"
#include "subjects/names.hpp"

namespace attest::cli {
namespace {

constexpr Example all_examples[] = {
    {"fuzz", "attest fuzz", "30 s of random problems against the built-in fused kernel", true},
    {"fuzz", "attest fuzz ./kernel.so --policy f16 --time 5m", "a plug-in, held to a policy", true},
    {"fuzz", "attest fuzz model.onnx", "a whole model, on ONNX Runtime at each of its levels"},
    {"fuzz", "attest fuzz kernel.py --known corpus/", "a nightly: failures that the corpus has fail nothing"},
    {"check", "attest check kernel.py --cases 2000", "bounded and deterministic, for CI", true},
    {"check", "attest check kernel.py --problem 'b=1 hq=1 ...'", "one problem, as a report prints it"},
    {"compare", "attest compare ./old.so ./new.so", "where two versions differ by more than both may", true},
    {"replay", "attest replay corpus/", "every stored reproducer gives what it expects", true},
    {"shrink", "attest shrink corpus/x/y.json", "goes on where the campaign's budget ended"},
    {"triage", "attest triage attest-out/x/y", "the defects of a campaign, once more"},
    {"report", "attest report attest-out/x/y", "writes report.html there"},
    {"merge", "attest merge night/shard-* -o night/all", "the shards of one campaign as one"},
    {"certify", "attest certify corpus/x/y.json", "its proof once more, in ball arithmetic", true},
    {"explain", "attest explain corpus/x/y.json",
     "where and why it fails: elements, promises it would fit, known faults", true},
    {"export", "attest export corpus/x/y.json --to python", "a script that shows the failure without attest", true},
    {"export", "attest export corpus/x/y.json --to issue", "a draft for a tracker"},
    {"judge", "attest judge --inputs in.npz --outputs out.npz --policy f16 --causal", "could these tensors be right?"},
    {"bound", "attest bound --inputs in.npz --policy f16", "tolerances for other tools, an element each"},
    {"probe", "attest probe ./kernel.so", "what it really computes in, and what its options mean", true},
    {"bench", "attest bench ./kernel.so", "its speed on usual shapes, compared with a built-in kernel"},
    {"grade", "attest grade --op layer_norm --seeds 1 --paired 0 --clean 0", "each planted fault is found"},
    {"stats", "attest stats --assume 'lq>=64 && lk>=64'", "the share of problems of which that holds"},
    {"list", "attest list subjects", "built-in kernels, faults and adapters"},
    {"list", "attest list properties", "the laws, a sentence each"},
    {"man", "attest man fuzz | man -l -", "the manual page of a verb"},
    {"completion", "source <(attest completion bash)", "in ~/.bashrc; zsh likewise, in ~/.zshrc"},
    {"completion", "attest completion fish > ~/.config/fish/completions/attest.fish", "fish reads it from there"},
};

constexpr Status all_statuses[] = {{"0", "held"},
                                   {"1", "a property failed"},
                                   {"2", "usage or a damaged file"},
                                   {"3", "attest itself failed"},
                                   {"4", "the subject could not be started"},
                                   {"5", "nothing judged"},
                                   {"125", "cannot test here (--bisect), or certify cannot decide"},
                                   {"130", "ended by a signal"}};

std::size_t width() {
  constexpr std::size_t least = 60, plain = 80, most = 100;
  const std::size_t columns = report::terminal_columns(STDOUT_FILENO);
  return columns == 0 ? plain : std::clamp(columns, least, most);
}

std::string wrapped(std::string_view text, std::size_t indent) { return report::wrapped(text, width(), indent); }

// A name, and its description from `column` on: in the line below where the name is too long.
std::string row(const std::string& name, std::string_view description, std::size_t column) {
  std::string all, line = "  " + name;
  if (line.size() + 2 > column) all = std::exchange(line, {}) + "\n";
  line.resize(column, ' ');
  return all + wrapped(line.append(description), column) + "\n";
}

// The examples of a verb, those of common verbs for the empty one, and the meaning of exit statuses.
std::string footer(std::string_view verb) {
  std::string all;
  for (const Example& example : examples_of(verb)) all += row(std::string(example.line), example.says, 6);
  std::string meanings = "exit status:";
  for (const Status& status : all_statuses)
    meanings += fmt::format("{} {} {}", &status == all_statuses ? "" : ",", status.number, status.says);
  return "examples:\n" + all + "\n" + wrapped(meanings, 13);
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool positional) const override {
    return row(make_option_name(option, positional) + make_option_opts(option), make_option_desc(option), 24);
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    return row(verb->get_display_name(true), verb->get_description(), 14);
  }
  std::string make_group(std::string group, bool positional, std::vector<const CLI::Option*> options) const override {
    std::string text = CLI::Formatter::make_group(std::move(group), positional, std::move(options));
    while (text.starts_with("\n\n")) text.erase(0, 1);
    return text;
  }
  std::string make_description(const CLI::App* app) const override { return wrapped(app->get_description(), 0) + "\n"; }
  std::string make_footer(const CLI::App* app) const override {
    return footer(app->get_parent() == nullptr ? "" : app->get_name()) + "\n";
  }
};

}  // namespace

std::vector<Example> examples_of(std::string_view verb) {
  std::vector<Example> examples;
  std::ranges::copy_if(all_examples, std::back_inserter(examples),
                       [verb](const Example& example) { return verb.empty() ? example.common : example.verb == verb; });
  return examples;
}
std::span<const Status> statuses() { return all_statuses; }

void lay_out_help(CLI::App& app) { app.formatter(std::make_shared<HelpFormatter>()); }

std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string> near = near_names(names, word);
  return near.empty() ? std::string() : fmt::format(" Did you mean {}?", near.front());
}

}  // namespace attest::cli
