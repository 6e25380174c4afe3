#pragma once
#include <filesystem>
#include <vector>

#include "core/subject.hpp"
#include "core/verdict.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// The files of one saved call: the same one for both where it holds what went in and what came out.
struct SavedFiles {
  std::filesystem::path inputs, outputs;
};

// The saved calls of a folder, in the order of their names: each NAME.npz, and each NAME.inputs.EXT with its
// NAME.outputs.EXT (npz, or Polygraphy's json). Throws Error(usage) for a folder that holds none, and for inputs
// without outputs.
std::vector<SavedFiles> saved_calls_in(const std::filesystem::path& folder);

// Asks the subject a saved call, and holds its outputs against the saved ones: the law compare-bound and, where `bits`,
// after it compare-bits. `saved`: the promise for the saved outputs; `its`: that of the subject. `saved_first`: A is
// the saved one. A failure counts if a fresh instance shows it too, and is flaky otherwise. A call that the subject
// does not take is a skip.
Verdict compare_saved(ops::Exchange& call, const Contract& saved, Subject& subject, const Contract& its,
                      bool saved_first, bool bits);

}  // namespace attest::engine
