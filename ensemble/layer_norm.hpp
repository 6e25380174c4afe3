#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "core/layer_norm/contract.hpp"
#include "core/layer_norm/inputs.hpp"
#include "ensemble/standing.hpp"

// LayerNorm and RMSNorm beside conforming kernels, as sample.hpp has attention.
namespace attest::ensemble::layer_norm {

using attest::layer_norm::Contract;
using attest::layer_norm::Inputs;
using attest::layer_norm::Problem;

std::optional<std::string_view> refusal(const Problem& problem, const Contract& contract);

// Rows that are held: as many of those judged as 2^13 elements allow, eight operations each, spread evenly.
std::vector<Index> sampled_rows(const Problem& problem);
// ((x - m) / sqrt(v + epsilon)) gamma + beta of these rows, in long double, x being x + residual as the contract has
// it.
std::vector<long double> exact_rows(const Inputs& inputs, const Contract& contract, const std::vector<Index>& rows);

// `out`: a subject's result. All must outlive the sample but `out`.
Sample sample(const Problem& problem, const Contract& contract, const Inputs& inputs, const Tensor& out);

}  // namespace attest::ensemble::layer_norm
