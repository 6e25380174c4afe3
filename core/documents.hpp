#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"

namespace attest {

// A sentence of a subject's documents, with the name and version of the document, and its topic: "attention", an option
// ("causal", "keep"), a key of the contract ("empty_row"), a form or one of its values ("form.mask", "form.mask=1d").
struct Quote {
  std::string about, text;
};

inline constexpr std::size_t most_quotes = 256, longest_quote = 400;

// Tells whether a sentence can be about this, forms excepted, which a subject names itself.
bool is_quotable(std::string_view about) noexcept;

// Returns the quotes that bear on a problem: on the operation, the options that it sets, the forms that it chooses, and
// on `promises`, keys of the contract. A sentence about several of them comes once.
std::vector<Quote> quotes_on(std::span<const Quote> quotes, const Problem& problem,
                             std::span<const std::string_view> promises);

// Returns the quotes about one value of a form, or about the form where none is.
std::vector<Quote> quotes_on_form(std::span<const Quote> quotes, const std::string& form, const std::string& value);

}  // namespace attest
