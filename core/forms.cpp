#include "core/forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_text.hpp"

namespace attest {
namespace {

bool letter(char c) noexcept { return c >= 'a' && c <= 'z'; }
bool digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool capital(char c) noexcept { return c >= 'A' && c <= 'Z'; }

// Returns a text of a file or a stranger for display: cut, and without characters that could move a terminal.
std::string shown(std::string_view text) {
  std::string line(text.substr(0, longest_form_word + 8));
  std::ranges::replace_if(
      line, [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

}  // namespace

bool is_form_name(std::string_view text) noexcept {
  return !text.empty() && text.size() <= longest_form_word && letter(text.front()) &&
         std::ranges::all_of(text, [](char c) { return letter(c) || digit(c) || c == '_'; });
}

bool is_form_value(std::string_view text) noexcept {
  const auto begins = [](char c) { return letter(c) || digit(c) || capital(c); };
  return !text.empty() && text.size() <= longest_form_word && begins(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return begins(c) || c == '_' || c == '.' || c == '-'; });
}

const std::string& form_value(const FormOffer& offer, std::span<const FormChoice> choices) noexcept {
  const auto found = std::ranges::find(choices, offer.name, &FormChoice::name);
  return found == choices.end() ? offer.values.front() : found->value;
}

void set_form(std::vector<FormChoice>& choices, const FormOffer& offer, std::string_view value) {
  std::erase_if(choices, [&](const FormChoice& choice) { return choice.name == offer.name; });
  if (value == offer.values.front()) return;
  const auto after = std::ranges::upper_bound(choices, offer.name, {}, &FormChoice::name);
  choices.insert(after, {offer.name, std::string(value)});
}

std::string forms_json(std::span<const FormChoice> choices) {
  std::string text;
  for (const FormChoice& choice : choices)
    text += fmt::format(R"({}"{}":"{}")", text.empty() ? "{" : ",", choice.name, choice.value);
  return text.empty() ? text : text + "}";
}

std::vector<FormChoice> forms_from_json(const nlohmann::json& object) {
  if (!object.is_object()) throw usage_error("form must be an object such as {\"mask\": \"1d\"}");
  std::vector<FormChoice> choices;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_string()) throw usage_error(fmt::format("form.{} must be a string", shown(name)));
    choices.push_back({name, value.get<std::string>()});
  }
  std::ranges::sort(choices, {}, &FormChoice::name);
  check_forms(choices);
  return choices;
}

std::vector<FormChoice> forms_from_json_text(std::string_view text) {
  const nlohmann::json object = parse_json_or_discard(text, 2);
  if (object.is_discarded()) throw usage_error(fmt::format("form: '{}' is no JSON object", shown(text)));
  return forms_from_json(object);
}

void check_forms(std::span<const FormChoice> choices) {
  if (choices.size() > most_forms)
    throw usage_error(fmt::format("{} forms are chosen: a problem has {} at most", choices.size(), most_forms));
  for (const FormChoice& choice : choices) {
    if (!is_form_name(choice.name))
      throw usage_error(fmt::format("'form.{}' is no name of a form: small letters, digits and _, at most {}",
                                    shown(choice.name), longest_form_word));
    if (!is_form_value(choice.value))
      throw usage_error(
          fmt::format("form.{}={}: a value is made of letters, digits, '_', '.' and '-', at most {}, and begins with a "
                      "letter or digit",
                      choice.name, shown(choice.value), longest_form_word));
  }
  for (std::size_t n = 1; n < choices.size(); ++n)
    if (!(choices[n - 1].name < choices[n].name))
      throw usage_error(fmt::format("form.{} is given twice, or out of order", choices[n].name));
}

}  // namespace attest
