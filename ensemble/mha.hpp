#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "core/mha/contract.hpp"
#include "core/mha/inputs.hpp"
#include "ensemble/standing.hpp"

// Attention blocks beside conforming ones, as sample.hpp has attention. Every element of a block is held: its sums
// cannot be made for some rows alone.
namespace attest::ensemble::mha {

using attest::mha::Call;
using attest::mha::Contract;
using attest::mha::Inputs;
using attest::mha::Problem;

std::optional<std::string_view> refusal(const Problem& problem, const Contract& contract);

// out [b,l,e] of a call in long double; NaN where no token is open to a head.
std::vector<long double> exact(const Call& call);

// `out`: a subject's result. All must outlive the sample but `out`.
Sample sample(const Problem& problem, const Contract& contract, const Inputs& inputs, const Tensor& out);

}  // namespace attest::ensemble::mha
