#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace attest::cli {

// Lays out the help of `app` and of each of its verbs as wide as the terminal, 60 to 100 columns, and 80 where stdout is
// none, with examples and the meaning of exit statuses at the end. Lines break between words.
void lay_out_help(CLI::App& app);

// " Did you mean --seed?" with the name that is fewest edits from a mistyped word; empty where each is more than a
// third of the word's letters away.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace attest::cli
