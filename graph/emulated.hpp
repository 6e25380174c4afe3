#pragma once
#include <memory>
#include <vector>

#include "graph/program.hpp"

namespace attest::graph {

// A runtime that conforms but takes no care: sums one by one in the accumulator's format, the rest rounded to nearest.
struct Careless {
  int partial_sums = 1;    // terms are dealt to so many, which are added up in pairs at the end
  bool fused = false;      // products within sums are not rounded
  bool backwards = false;  // sums begin at their last term
  double ulps = 0;         // functions that are no single division or root are off by up to so many
  bool flushes = false;    // subnormal results of f32 and bf16 are 0
};
std::unique_ptr<Arithmetic> careless(const Careless& how);

// The results of a runtime that computes by `arithmetic`: the outputs, one lane each, stored in the format of results.
// Throws as Program::run.
std::vector<Array> results_by(const Program& program, const Feeds& feeds, const Arithmetic& arithmetic,
                              const Precision& precision);

}  // namespace attest::graph
