#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/documents.hpp"
#include "core/mha/problem.hpp"

namespace attest::mha {

// Tells whether a sentence of a subject's documents can be about this: "mha", an option ("memory", "in_biases"), a key
// of the contract ("projections").
bool is_quotable(std::string_view about) noexcept;

// Returns the quotes that bear on a problem, as core/documents.hpp documents it.
std::vector<Quote> quotes_on(std::span<const Quote> quotes, const Problem& problem,
                             std::span<const std::string_view> promises);

}  // namespace attest::mha
