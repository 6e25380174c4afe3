#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "graph/ensemble.hpp"
#include "models/entry.hpp"

namespace attest::models {

// A graph with its inputs and where its results should lie, ready to be handed to somebody who has no attest.
struct Exhibit {
  std::string name;  // its file's
  graph::Model model;
  std::vector<graph::Feeds> before;  // inputs of runs that must come before, in order, or it does not show; mostly none
  graph::Feeds feeds;
  std::vector<graph::Spread> expected;           // by output, in the model's order
  std::optional<std::vector<graph::Array>> got;  // likewise, as the runtime gave them
};

// The whole model on an entry's problem. `runtime`: asked what it gives, unless null. Throws as Family::feeds and
// Program::run.
Exhibit whole_of(const Entry& entry, const Part& model, Runtime* runtime);
// The failing part as it lies beside an entry's file; nullopt where the entry has none, or it is not there any more.
// Throws Error(usage) for files that are damaged.
std::optional<Exhibit> segment_of(const std::filesystem::path& file, const Entry& entry, Runtime* runtime);

}  // namespace attest::models
