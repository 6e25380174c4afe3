#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/contract.hpp"
#include "core/inputs.hpp"
#include "ensemble/standing.hpp"

// Attention beside conforming kernels.
namespace attest::ensemble {

// Why a problem is not held against an ensemble, if it is not.
std::optional<std::string_view> refusal(const Problem& problem, const Contract& contract);

// The rows that are held: as many of the judged ones as 2^16 multiply-adds allow, spread evenly.
std::vector<RowIndex> sampled_rows(const Problem& problem);
// softmax(scale q k^T + bias) v of these rows, dv numbers each, in long double; NaN where no key is open.
std::vector<long double> exact_rows(const Inputs& inputs, bool softcap_before_bias, std::span<const RowIndex> rows);

// `out`: a subject's result. All must outlive the sample but `out`.
Sample sample(const Problem& problem, const Contract& contract, const Inputs& inputs, const Tensor& out);

}  // namespace attest::ensemble
