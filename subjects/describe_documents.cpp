#include "subjects/describe_documents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/layer_norm/documents.hpp"
#include "core/mha/documents.hpp"
#include "subjects/message.hpp"

namespace attest {
namespace {

using nlohmann::json;

// "form.mask", "form.mask=1d".
bool is_about_forms(std::string_view about, const std::vector<FormOffer>& forms) {
  if (!about.starts_with(form_prefix)) return false;
  about.remove_prefix(form_prefix.size());
  const std::string_view name = about.substr(0, about.find('='));
  const auto offer = std::ranges::find(forms, name, &FormOffer::name);
  if (offer == forms.end()) return false;
  return name.size() == about.size() ||
         std::ranges::find(offer->values, about.substr(name.size() + 1)) != offer->values.end();
}

std::string sentence(const std::string& about, const json& value) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty() ||
      value.get_ref<const std::string&>().size() > longest_quote)
    throw usage_error(fmt::format("'documents.{}' must be a sentence of up to {} characters, or a list of such", about,
                                  longest_quote));
  return one_line(value.get_ref<const std::string&>());
}

}  // namespace

std::vector<Quote> read_documents(const json& documents, const std::vector<FormOffer>& forms) {
  if (!documents.is_object())
    throw usage_error("'documents' must be an object of sentences, such as {\"empty_row\": \"...\"}");
  std::vector<Quote> quotes;
  for (const auto& [about, value] : documents.items()) {
    if (!is_quotable(about) && !layer_norm::is_quotable(about) && !mha::is_quotable(about) &&
        !is_about_forms(about, forms))
      throw usage_error(fmt::format(
          "'documents.{}' is about nothing of a call: docs/plugin.md lists what can be quoted", one_line(about)));
    if (value.is_array())
      for (const json& item : value) quotes.push_back({about, sentence(about, item)});
    else
      quotes.push_back({about, sentence(about, value)});
  }
  if (quotes.size() > most_quotes)
    throw usage_error(fmt::format("'documents' has {} sentences: {} at most", quotes.size(), most_quotes));
  return quotes;
}

}  // namespace attest
