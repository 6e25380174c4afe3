#include "core/documents.hpp"

#include <algorithm>
#include <array>

namespace attest {
namespace {

// The options of a call, and whether a problem sets them.
struct Option {
  std::string_view name;
  bool (*set)(const Problem&);
};
constexpr std::array options{
    Option{"attention", [](const Problem&) { return true; }},
    Option{"dtypes", [](const Problem& p) { return p.dtype != Format::f32; }},
    Option{"causal", [](const Problem& p) { return p.causal; }},
    Option{"align",
           [](const Problem& p) { return (p.causal || p.window_left >= 0 || p.window_right >= 0) && p.lq != p.lk; }},
    Option{"gqa", [](const Problem& p) { return p.hq != p.hkv; }},
    Option{"bias", [](const Problem& p) { return p.bias != Bias::none; }},
    Option{"keep", [](const Problem& p) { return p.keep != Keep::none; }},
    Option{"kv_lengths", [](const Problem& p) { return p.lengths != Lengths::none; }},
    Option{"window", [](const Problem& p) { return p.window_left >= 0 || p.window_right >= 0; }},
    Option{"softcap", [](const Problem& p) { return p.softcap != 0; }},
    Option{"scale", [](const Problem& p) { return p.scale.has_value(); }},
    Option{"lse", [](const Problem& p) { return p.lse != LseOutput::none; }},
};
constexpr std::array<std::string_view, 8> promises_of_contracts{
    "policy",        "empty_row",  "softcap_before_bias", "nan",
    "masked_unread", "mask_added", "batch_invariant",     "deterministic"};

}  // namespace

bool is_quotable(std::string_view about) noexcept {
  return std::ranges::any_of(options, [&](const Option& option) { return option.name == about; }) ||
         std::ranges::find(promises_of_contracts, about) != promises_of_contracts.end();
}

std::vector<Quote> quotes_on_form(std::span<const Quote> quotes, const std::string& form, const std::string& value) {
  for (const std::string& about : {"form." + form + "=" + value, "form." + form}) {
    std::vector<Quote> found;
    std::ranges::copy_if(quotes, std::back_inserter(found), [&](const Quote& quote) { return quote.about == about; });
    if (!found.empty()) return found;
  }
  return {};
}

std::vector<Quote> quotes_on(std::span<const Quote> quotes, const Problem& problem,
                             std::span<const std::string_view> promises) {
  std::vector<Quote> found;
  const auto add = [&](const Quote& quote) {
    if (std::ranges::find(found, quote.text, &Quote::text) == found.end()) found.push_back(quote);
  };
  for (const Quote& quote : quotes) {
    const auto* const option = std::ranges::find(options, quote.about, &Option::name);
    if (option != options.end() ? option->set(problem) : std::ranges::find(promises, quote.about) != promises.end())
      add(quote);
  }
  for (const FormChoice& form : problem.forms)
    std::ranges::for_each(quotes_on_form(quotes, form.name, form.value), add);
  return found;
}

}  // namespace attest
