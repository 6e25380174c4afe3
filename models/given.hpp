#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/npz.hpp"
#include "graph/constraints.hpp"
#include "graph/program.hpp"
#include "models/entry.hpp"

namespace attest::models {

// Inputs of one's own, which campaigns draw around (docs/graphs.md section 4).
struct GivenInputs {
  std::filesystem::path path;  // a file or a folder
  std::string digest;          // the digest of all numbers, as hex64 has it
  std::shared_ptr<const std::vector<graph::Feeds>> sets;
};

// The inputs of a model among `arrays`, bf16 as uint16. Throws Error(usage), one sentence with `where`, the input, the
// place and the remedy: for one that is missing, of another type or shape than the model takes, or empty, for NaN, and
// for rows that a table has not.
graph::Feeds given_feeds(std::span<const NamedArray> arrays, const graph::Program& program,
                         const graph::Constraints& constraints, const std::string& where);

// Reads an .npz, an .npy of a model's only input, or Polygraphy's JSON, of which each iteration is a set; or all such
// files of a folder, by name. Throws as given_feeds and engine::read_saved_runs, and for a path that is neither and a
// folder without any.
GivenInputs read_given(const std::filesystem::path& path, const graph::Program& program,
                       const graph::Constraints& constraints);

// The facts that a family of an entry's problems takes. Throws Error(no_subject) where the entry's inputs are not there
// or have changed.
graph::Constraints constraints_of(const Entry& entry, const graph::Program& program);

}  // namespace attest::models
