#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/inputs.hpp"
#include "kernels/registry.hpp"

namespace attest::kernels::test {

// A small problem that may use every option of the domain at once; values of moderate size.
Problem random_problem(std::uint64_t seed, Format dtype);

struct Result {
  std::vector<double> out, lse;  // row-major [B,Hq,Lq,Dv] and [B,Hq,Lq]; lse is empty where none was asked for
  bool intact = true;            // every element written, and nothing outside out and lse, inputs included
};

// The problem under the contract of `kernel` for `policy`.
Result run(const KernelEntry& kernel, const Problem& problem, const Policy& policy);
Result run(const KernelEntry& kernel, const Problem& problem, const Contract& contract);

// Attention written down as attest/plugin.h says it, in float64, a loop per index: shares nothing with the kernels.
Result naive(const Problem& problem, const Contract& contract);

// The largest |x - y| over (1 + |y|), infinite where one is NaN or infinite and the other is not the same.
double distance(const std::vector<double>& x, const std::vector<double>& y);
// Equal as numbers, NaN equal to NaN, and both intact or neither.
bool same(const Result& x, const Result& y);

const KernelEntry& builtin(std::string_view name);
const KernelEntry& fault(std::string_view name);

}  // namespace attest::kernels::test
