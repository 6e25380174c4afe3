#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "ensemble/steps.hpp"

// Results to hold against the ensemble: those of kernels that keep a contract, which may never be blamed, and those of
// kernels that make one step in fewer bits than it says.
namespace attest::testing {

struct EnsembleCase {
  std::string subject;
  bool conforming = true;
  std::string problem, contract;  // as text
  ensemble::Outcome outcome;
};
using EnsembleTold = std::function<void(const EnsembleCase&)>;

enum class Subjects : std::uint8_t { conforming, faulty, all };

// Case n of a seed: a problem, a contract, and the subjects that there are of it. One problem in five is of people's
// shapes.
void attention_case(std::uint64_t seed, std::uint64_t n, Subjects which, const EnsembleTold& told);
void layer_norm_case(std::uint64_t seed, std::uint64_t n, Subjects which, const EnsembleTold& told);
void mha_case(std::uint64_t seed, std::uint64_t n, Subjects which, const EnsembleTold& told);

}  // namespace attest::testing
