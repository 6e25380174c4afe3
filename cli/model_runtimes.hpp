#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/settings.hpp"
#include "models/campaign.hpp"
#include "models/entry.hpp"
#include "subjects/resolve.hpp"

// Finds the runtimes that are asked about a model: those of --on, and those that an entry names.
namespace attest::cli {

// Tells whether a file is a program that torch exported.
bool is_program(const std::filesystem::path& file);
// The options with which runtimes of this model are started.
ResolveOptions runtime_options(const Settings& settings, const std::filesystem::path& model);

std::vector<std::string> split_words(std::string_view text, char between);

// The subjects of --on, each runtime once. Throws Error(usage) for a build that a runtime does not have,
// Error(no_subject) for one that cannot be had here.
std::vector<models::Subject> subjects_of(const Settings& settings, const std::filesystem::path& model,
                                         const std::filesystem::path& logs);

// The runtime of an entry, or the one of --on; `script` is the file of an external one, which is trusted. An entry
// hands no options over to a runtime that this user has not handed over before: Error(no_subject).
std::unique_ptr<models::Runtime> runtime_of(const Settings& settings, const models::Entry& entry,
                                            const std::function<std::filesystem::path()>& script);

}  // namespace attest::cli
