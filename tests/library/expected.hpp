#pragma once
#include <cstdint>
#include <string>
#include <vector>

// The results of the rooms that the library has within it. They are apart from attest/attest.hpp, whose names are
// theirs, too.
namespace expected {

std::string drawn(const std::string& describe, std::uint64_t seed, std::uint64_t number);
// The elements of q of a problem of attention, row-major, and its scale behind them.
std::vector<double> q_and_scale(const std::string& problem);

}  // namespace expected
