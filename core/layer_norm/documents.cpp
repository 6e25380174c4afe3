#include "core/layer_norm/documents.hpp"

#include <algorithm>
#include <array>

namespace attest::layer_norm {
namespace {

// The options of a call, and whether a problem sets them.
struct Option {
  std::string_view name;
  bool (*set)(const Problem&);
};
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

bool is_quotable(std::string_view about) noexcept {
  return std::ranges::any_of(options, [&](const Option& option) { return option.name == about; }) ||
         std::ranges::find(promises_of_contracts, about) != promises_of_contracts.end();
}

std::vector<Quote> quotes_on(std::span<const Quote> quotes, const Problem& problem,
                             std::span<const std::string_view> promises) {
  std::vector<Quote> found;
  for (const Quote& quote : quotes) {
    const auto* const option = std::ranges::find(options, quote.about, &Option::name);
    const bool bears =
        option != options.end() ? option->set(problem) : std::ranges::find(promises, quote.about) != promises.end();
    if (bears && std::ranges::find(found, quote.text, &Quote::text) == found.end()) found.push_back(quote);
  }
  return found;
}

}  // namespace attest::layer_norm
