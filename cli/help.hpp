#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace attest::cli {

// Writes help as wide as the terminal, 60 to 100 columns, and 80 where stdout is none. Lines break between words.
std::shared_ptr<CLI::Formatter> help_formatter();

// The examples of a verb and the meaning of exit statuses; for the empty verb one example of each common verb.
std::string help_footer(std::string_view verb);

// " Did you mean --seed?" with the name that is fewest edits from a mistyped word; empty where each is more than a
// third of the word's letters away.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace attest::cli
