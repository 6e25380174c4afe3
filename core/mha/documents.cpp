#include "core/mha/documents.hpp"

#include <array>

#include "core/documents_of.hpp"

namespace attest::mha {
namespace {

using Option = QuotableOption<Problem>;
constexpr std::array options{
    Option{"mha", [](const Problem&) { return true; }},
    Option{"dtypes", [](const Problem& p) { return p.dtype != Format::f32; }},
    Option{"memory", [](const Problem& p) { return !p.self; }},
    Option{"packed", [](const Problem& p) { return p.packed; }},
    Option{"in_biases", [](const Problem& p) { return p.has_in_biases(); }},
    Option{"out_bias", [](const Problem& p) { return p.has_out_bias(); }},
    Option{"gqa", [](const Problem& p) { return p.heads != p.kv_heads; }},
    Option{"causal", [](const Problem& p) { return p.causal; }},
    Option{"align", [](const Problem& p) { return p.causal && p.l != p.m; }},
    Option{"bias", [](const Problem& p) { return p.bias != Bias::none; }},
    Option{"keep", [](const Problem& p) { return p.has_keep(); }},
    Option{"kv_lengths", [](const Problem& p) { return p.has_lengths(); }},
    Option{"scale", [](const Problem& p) { return p.scale.has_value(); }},
};
constexpr std::array<std::string_view, 7> promises_of_contracts{
    "policy", "empty_row", "nan", "projections", "heads", "batch_invariant", "deterministic"};

}  // namespace

bool is_quotable(std::string_view about) noexcept { return is_quotable_of(options, promises_of_contracts, about); }

std::vector<Quote> quotes_on(std::span<const Quote> quotes, const Problem& problem,
                             std::span<const std::string_view> promises) {
  return quotes_of(options, quotes, problem, promises);
}

}  // namespace attest::mha
