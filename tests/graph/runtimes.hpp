#pragma once
#include <string>
#include <utility>
#include <vector>

#include "graph/emulated.hpp"

namespace attest::graph::test {

// Conforming runtimes that take no care, each in a way of its own.
inline std::vector<std::pair<std::string, Careless>> runtimes() {
  return {{"forwards", {}},
          {"backwards", {.backwards = true}},
          {"fused", {.fused = true}},
          {"eight-sums", {.partial_sums = 8}},
          {"functions-off-an-ulp", {.partial_sums = 16, .ulps = 1}},
          {"flushes-to-zero", {.partial_sums = 4, .flushes = true}}};
}

}  // namespace attest::graph::test
