#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace attest {

// Forms: the ways to make one call, such as a mask of one dimension, a scale that is a constant of the graph, keys that
// come as past and present. A subject declares them (docs/plugin.md, "forms"); a problem says which of them it uses.

// One choice of a problem: a value that is not the first.
struct FormChoice {
  std::string name, value;
  friend bool operator==(const FormChoice&, const FormChoice&) = default;
};

// The conditions of a form's value where problems are drawn: values of other forms that it brings along, and a
// predicate of the problems that it can express; empty: any. The subject refuses any other call.
struct FormRule {
  std::string value;
  std::vector<FormChoice> needs;
  std::string where;
  friend bool operator==(const FormRule&, const FormRule&) = default;
};

// One form of a subject, and its values. The first value is the default, and has no rule.
struct FormOffer {
  std::string name;
  std::vector<std::string> values;
  std::vector<FormRule> rules = {};
  friend bool operator==(const FormOffer&, const FormOffer&) = default;
};

inline constexpr std::string_view form_prefix = "form.";  // prefix of a form's name in texts: "form.mask=1d"
inline constexpr std::size_t most_forms = 16, most_form_values = 16, longest_form_word = 32;

// Tells whether `text` can be the name of a form: small letters, digits and _, a letter first. A value may begin with a
// digit, and hold capitals, '.' and '-' too.
bool is_form_name(std::string_view text) noexcept;
bool is_form_value(std::string_view text) noexcept;

// The value in effect of an offered form.
const std::string& form_value(const FormOffer& offer, std::span<const FormChoice> choices) noexcept;

// Keeps one choice a name, in the order of names, and none that chooses the offered form's first value.
void set_form(std::vector<FormChoice>& choices, const FormOffer& offer, std::string_view value);

// Returns the text that an attest_attention carries: a JSON object such as {"mask":"1d"}; empty where nothing is
// chosen.
std::string forms_json(std::span<const FormChoice> choices);
// Reads it back, sorted. Throws Error(usage) for an object that is no form, a name that comes twice, or too many of
// them.
std::vector<FormChoice> forms_from_json(const nlohmann::json& object);
std::vector<FormChoice> forms_from_json_text(std::string_view text);

// Throws Error(usage) unless the choices are sorted by name, each once, and well formed.
void check_forms(std::span<const FormChoice> choices);

}  // namespace attest
