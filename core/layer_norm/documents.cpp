#include "core/layer_norm/documents.hpp"

#include <array>

#include "core/documents_of.hpp"

namespace attest::layer_norm {
namespace {

using Option = QuotableOption<Problem>;
constexpr std::array options{
    Option{"layer_norm", [](const Problem&) { return true; }},
    Option{"dtypes", [](const Problem& p) { return p.dtype != Format::f32; }},
    Option{"rms", [](const Problem& p) { return p.norm == Norm::rms; }},
    Option{"epsilon", [](const Problem&) { return true; }},
    Option{"residual", [](const Problem& p) { return p.residual != Residual::none; }},
    Option{"sum_out", [](const Problem& p) { return p.sum_out; }},
    Option{"gamma", [](const Problem& p) { return p.gamma != Weights::none; }},
    Option{"beta", [](const Problem& p) { return p.beta != Weights::none; }},
};
constexpr std::array<std::string_view, 5> promises_of_contracts{"policy", "variance", "nan", "batch_invariant",
                                                                "deterministic"};

}  // namespace

bool is_quotable(std::string_view about) noexcept { return is_quotable_of(options, promises_of_contracts, about); }

std::vector<Quote> quotes_on(std::span<const Quote> quotes, const Problem& problem,
                             std::span<const std::string_view> promises) {
  return quotes_of(options, quotes, problem, promises);
}

}  // namespace attest::layer_norm
