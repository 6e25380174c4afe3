#pragma once
#include <cstdint>
#include <string>
#include <vector>

// What the rooms give that the library has within it. Apart from attest/attest.hpp, whose names are theirs, too.
namespace expected {

std::string drawn(const std::string& describe, std::uint64_t seed, std::uint64_t number);
// The elements of q of a problem of attention, row-major, and its scale behind them.
std::vector<double> q_and_scale(const std::string& problem);

}  // namespace expected
