#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/settings.hpp"
#include "models/replay.hpp"

// fuzz, check and replay of ONNX models (docs/graphs.md).
namespace attest::cli {

// Tells whether a SUBJECT is a model.
bool names_model(std::string_view subject);
// The options of fuzz and check for models alone.
std::vector<Option> model_options();
// Throws Error(usage) where one of them is given and SUBJECT is no model.
void refuse_model_options(const Settings& settings);
// `verb`: "fuzz" or "check".
int run_model(const Settings& settings, const std::string& verb, const std::string& model);

bool is_model_entry(const std::filesystem::path& file);
models::Replayed replay_model_entry(const Settings& settings, const std::filesystem::path& file);
int explain_model_entry(const Settings& settings, const std::filesystem::path& file);
int shrink_model_entry(const Settings& settings, const std::filesystem::path& file);
// `format`: the value of --to.
int export_model_entry(const Settings& settings, const std::filesystem::path& file, const std::string& format);

}  // namespace attest::cli
