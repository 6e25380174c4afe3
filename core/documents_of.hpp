#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/documents.hpp"

// The topics of sentences of documents for an operation without forms, written once for all.
namespace attest {

// An option of a call, and whether a problem sets it.
template <class Problem>
struct QuotableOption {
  std::string_view name;
  bool (*set)(const Problem&);
};

template <class Options, class Promises>
bool is_quotable_of(const Options& options, const Promises& promises_of_contracts, std::string_view about) noexcept {
  return std::ranges::any_of(options, [&](const auto& option) { return option.name == about; }) ||
         std::ranges::find(promises_of_contracts, about) != promises_of_contracts.end();
}

// Returns the quotes that bear on a problem, as core/documents.hpp documents it.
template <class Problem, std::size_t count>
std::vector<Quote> quotes_of(const std::array<QuotableOption<Problem>, count>& options, std::span<const Quote> quotes,
                             const Problem& problem, std::span<const std::string_view> promises) {
  std::vector<Quote> found;
  for (const Quote& quote : quotes) {
    const auto* const option = std::ranges::find(options, quote.about, &QuotableOption<Problem>::name);
    const bool bears =
        option != options.end() ? option->set(problem) : std::ranges::find(promises, quote.about) != promises.end();
    if (bears && std::ranges::find(found, quote.text, &Quote::text) == found.end()) found.push_back(quote);
  }
  return found;
}

}  // namespace attest
