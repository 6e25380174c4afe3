#include "cli/help.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>

namespace attest::cli {
namespace {

struct Example {
  std::string_view verb, line, says;
  bool common = false;  // stands in the help of attest itself
};

constexpr Example examples[] = {
    {"fuzz", "attest fuzz", "30 s of random problems against the built-in fused kernel", true},
    {"fuzz", "attest fuzz ./kernel.so --policy f16 --time 5m", "a plug-in, held to a policy", true},
    {"fuzz", "attest fuzz model.onnx", "a whole model, on ONNX Runtime at each of its levels"},
    {"fuzz", "attest fuzz kernel.py --known corpus/", "a nightly: what the corpus tells fails nothing"},
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
    {"bench", "attest bench ./kernel.so", "its speed on shapes as they are drawn, beside a built-in kernel"},
    {"grade", "attest grade --op layer_norm --seeds 1 --paired 0 --clean 0", "each planted fault is found"},
    {"stats", "attest stats --assume 'lq>=64 && lk>=64'", "the share of problems of which that holds"},
    {"list", "attest list subjects", "built-in kernels, faults and adapters"},
    {"list", "attest list properties", "the laws, a sentence each"},
    {"completion", "source <(attest completion bash)", "in ~/.bashrc; zsh likewise, in ~/.zshrc"},
    {"completion", "attest completion fish > ~/.config/fish/completions/attest.fish", "fish reads it from there"},
};

constexpr std::string_view statuses =
    "exit status: 0 held, 1 a property failed, 2 usage or a damaged file, 3 attest itself failed, 4 the subject could "
    "not be started, 5 nothing judged, 125 cannot test here (--bisect), or certify cannot decide";

std::size_t width() {
  constexpr std::size_t least = 60, plain = 80, most = 100;
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return plain;
  return std::clamp<std::size_t>(size.ws_col, least, most);
}

// Words of a text in lines that end before `width`, the first from column `at` on, all others from `indent` on.
std::string wrapped(std::string_view text, std::size_t at, std::size_t indent) {
  std::string all;
  const std::size_t most = width();
  bool first = true;  // of its line
  while (!text.empty()) {
    const std::size_t blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    if (word.empty()) continue;
    if (!first && at + 1 + word.size() > most) {
      all += "\n" + std::string(indent, ' ');
      at = indent;
      first = true;
    }
    if (!first) all += ' ', ++at;
    all += word;
    at += word.size();
    first = false;
  }
  return all;
}

// A name, and its description from `column` on: in the line below where the name is too long.
std::string row(const std::string& name, std::string_view description, std::size_t column) {
  std::string all = "  " + name;
  if (all.size() + 2 > column)
    all += "\n" + std::string(column, ' ');
  else
    all += std::string(column - all.size(), ' ');
  return all + wrapped(description, column, column) + "\n";
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool positional) const override {
    return row(make_option_name(option, positional) + make_option_opts(option), make_option_desc(option), 24);
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    return row(verb->get_display_name(true), verb->get_description(), 12);
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), 0, 0) + "\n";
  }
};

// The examples of a verb, those of common verbs for the empty one, and the meaning of exit statuses.
std::string footer(std::string_view verb) {
  std::string all;
  for (const Example& example : examples)
    if (verb.empty() ? example.common : example.verb == verb) all += row(std::string(example.line), example.says, 6);
  return "examples:\n" + all + "\n" + wrapped(statuses, 0, 13);
}

// The fewest letters that are left out, added, replaced or exchanged with their neighbour (Damerau, 1964).
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

void lay_out_help(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer(footer(""));
  for (CLI::App* verb : app.get_subcommands({})) {
    verb->formatter(app.get_formatter());
    verb->footer(footer(verb->get_name()));
  }
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  std::string_view nearest;
  for (const std::string& name : names)
    if (const std::size_t n = edits(word, name); n < fewest) {
      fewest = n;
      nearest = name;
    }
  return 3 * fewest <= word.size() ? fmt::format(" Did you mean {}?", nearest) : std::string();
}

}  // namespace attest::cli
