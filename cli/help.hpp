#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace attest::cli {

// Lays out the help of `app` and of each verb that is added to it later as wide as the terminal, 60 to 100 columns, and
// 80 where stdout is none, with examples and the meaning of exit statuses at the end. Lines break between words.
void lay_out_help(CLI::App& app);

// A command line of a verb, and a few words on it.
struct Example {
  std::string_view verb, line, says;
  bool common = false;  // stands in the help of attest itself
};
// The examples of a verb; for the empty one, those of common verbs.
std::vector<Example> examples_of(std::string_view verb);

// An exit status of any verb, and its meaning.
struct Status {
  std::string_view number, says;
};
std::span<const Status> statuses();

// The options of a verb, "--seed".
std::vector<std::string> option_names(const CLI::App& verb);

// " Did you mean --seed?" with the name nearest to a mistyped word (subjects/names.hpp); empty where none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace attest::cli
