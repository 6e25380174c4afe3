#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/npz.hpp"

namespace attest::engine {

// The run whose tensors are read from a file that holds those of several runs.
struct SavedRun {
  std::optional<std::string> runner;  // Polygraphy's name of it; absent: the only one
  std::size_t iteration = 0;
};

// The tensors of a run made elsewhere: an .npz, a single .npy (named like the file), or the JSON that Polygraphy writes
// for --save-inputs and --save-outputs. Told apart by their first bytes. Throws Error(usage): one sentence that names
// the file and what is wrong with it.
std::vector<NamedArray> read_saved_tensors(const std::filesystem::path& file, const SavedRun& run = {});

// The tensors of all runs that such a file holds: each iteration of a JSON's only runner.
std::vector<std::vector<NamedArray>> read_saved_runs(const std::filesystem::path& file);

// Polygraphy's JSON: a list of iterations (inputs), or a RunResults object of runners and their iterations (outputs).
// Each iteration is an object from name to array, an array the base64 text of an .npy. Throws as above, naming `name`.
std::vector<NamedArray> read_polygraphy(std::string_view text, const std::string& name, const SavedRun& run = {});

}  // namespace attest::engine
