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

// The saved calls of a folder, in the order of their names: each NAME.npz, and each NAME.inputs.EXT with its NAME.outputs.EXT
// (npz, or Polygraphy's json). Throws Error(usage) for a folder that holds none, and for inputs without outputs.
std::vector<SavedFiles> saved_calls_in(const std::filesystem::path& folder);

// Asks the subject a saved call, and holds what it gives against what was saved: the law compare-bound and, where `bits`, behind
// it compare-bits. `saved`: what is promised of the saved outputs; `its`: of the subject's. `saved_first`: A is what was saved.
// A failure counts if a fresh instance shows it too, and is flaky otherwise. What the subject does not take is a skip.
Verdict compare_saved(ops::Exchange& call, const Contract& saved, Subject& subject, const Contract& its,
                      bool saved_first, bool bits);

}  // namespace attest::engine
