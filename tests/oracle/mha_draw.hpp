#pragma once
#include <string>

#include "core/mha/contract.hpp"
#include "core/mha/problem.hpp"

namespace attest::testing {

// A small random block problem over the whole domain of core/mha.
mha::Problem draw_block(Format dtype, std::uint64_t seed);

// Contracts that reach every number of a block's contract, by a number that any integer may be.
struct NamedBlockContract {
  std::string policy, numbers;
  [[nodiscard]] mha::Contract contract() const;
};
NamedBlockContract draw_block_contract(std::uint64_t seed);
// Draws a contract with tensor cores, operands narrower than storage, and flushed subnormal numbers.
NamedBlockContract draw_unit_contract(std::uint64_t seed);
// Makes a problem for contracts that flush: x, memory and weights many of whose products, some inputs and some results
// are subnormal.
mha::Problem make_small(mha::Problem problem, std::uint64_t seed);

}  // namespace attest::testing
