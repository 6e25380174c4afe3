#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/model.hpp"

namespace attest::graph::test {

// A defect of a runtime, written as the graph that it computes in place of the one it was given; nullopt where a graph
// has no place for it.
struct Fault {
  std::string name;
  std::function<std::optional<Model>(const Model&)> plant;
};
const std::vector<Fault>& faults();

}  // namespace attest::graph::test
