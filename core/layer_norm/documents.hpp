#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/documents.hpp"
#include "core/layer_norm/problem.hpp"

namespace attest::layer_norm {

// Tells whether `about` is a topic of a subject's documents: "layer_norm", an option ("rms", "residual"), a key of the
// contract ("variance").
bool is_quotable(std::string_view about) noexcept;

// Returns the quotes that bear on a problem, as core/documents.hpp documents it.
std::vector<Quote> quotes_on(std::span<const Quote> quotes, const Problem& problem,
                             std::span<const std::string_view> promises);

}  // namespace attest::layer_norm
