#include "subjects/describe_forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.hpp"
#include "subjects/message.hpp"

namespace attest {
namespace {

using nlohmann::json;

constexpr std::size_t most_promises = 256;

// `form`: where it stands.
[[noreturn]] void reject_form(const std::string& form, const std::string& wanted) {
  throw usage_error(fmt::format("'{}' must be {}", one_line(form), wanted));
}

std::string value_of(const std::string& form, const json& entry) {
  const json& value = entry.is_object() && entry.contains("value") ? entry.at("value") : entry;
  if (!value.is_string() || !is_form_value(value.get_ref<const std::string&>()))
    reject_form(form,
                "a list of words of letters, digits, '_', '.' and '-', or of {\"value\": WORD, \"contract\": {...}}");
  if (!entry.is_object()) return value.get<std::string>();
  for (const auto& [key, _] : entry.items())
    if (key != "value" && key != "contract" && key != "needs" && key != "where")
      reject_form(form, fmt::format("without '{}' beside 'value', 'contract', 'needs' and 'where'", one_line(key)));
  if (entry.contains("contract") && !entry.at("contract").is_object())
    reject_form(form, "with an object as 'contract'");
  return value.get<std::string>();
}

// The rule that an entry states about draws of its value; nullopt if there is none. The names of forms are checked once
// all are read.
std::optional<FormRule> rule_of(const std::string& form, const json& entry, const std::string& value) {
  if (!entry.is_object() || !(entry.contains("needs") || entry.contains("where"))) return std::nullopt;
  FormRule rule{value, {}, {}};
  const json needs = entry.value("needs", json::object()), where = entry.value("where", json(""));
  if (!needs.is_object()) reject_form(form, R"(with an object as 'needs', such as {"past": "shared"})");
  for (const auto& [name, needed] : needs.items()) {
    if (!needed.is_string()) reject_form(form, R"(with words in 'needs', such as {"past": "shared"})");
    rule.needs.push_back({name, needed.get<std::string>()});
  }
  if (!where.is_string()) reject_form(form, "with a predicate as 'where', such as \"lk>=lq\"");
  rule.where = where.get<std::string>();
  return rule;
}

void require_known(const std::vector<FormOffer>& offers, const std::string& key) {
  for (const FormOffer& offer : offers)
    for (const FormRule& rule : offer.rules)
      for (const FormChoice& need : rule.needs) {
        const auto other = std::ranges::find(offers, need.name, &FormOffer::name);
        if (other == offers.end() || other == offers.begin() + (&offer - offers.data()) ||
            std::ranges::find(other->values, need.value) == other->values.end())
          throw usage_error(fmt::format("'{}.{}' needs form.{}={}, which is no value of another form", key, offer.name,
                                        one_line(need.name), one_line(need.value)));
      }
}

}  // namespace

std::vector<FormOffer> read_forms(const json& forms, const std::string& key) {
  if (!forms.is_object())
    throw usage_error(fmt::format(R"('{}' must be an object of lists, such as {{"mask": ["full", "1d"]}})", key));
  if (forms.size() > most_forms)
    throw usage_error(fmt::format("'{}' has {} forms: {} at most", key, forms.size(), most_forms));
  std::vector<FormOffer> offers;
  for (const auto& [name, values] : forms.items()) {
    const std::string at = fmt::format("{}.{}", key, name);
    if (!is_form_name(name)) reject_form(at, "named by small letters, digits and '_'");
    if (!values.is_array() || values.empty() || values.size() > most_form_values)
      reject_form(at, fmt::format("a list of 1 to {} values", most_form_values));
    FormOffer& offer = offers.emplace_back(FormOffer{name, {}, {}});
    for (const json& entry : values) {
      std::string value = value_of(at, entry);
      if (std::ranges::find(offer.values, value) != offer.values.end())
        reject_form(at, "a list without '" + value + "' twice");
      if (auto rule = rule_of(at, entry, value)) offer.rules.push_back(std::move(*rule));
      offer.values.push_back(std::move(value));
    }
    if (values.front().is_object() && values.front().contains("contract"))
      reject_form(at, "without a contract of its first value, which has the subject's own");
    if (!offer.rules.empty() && offer.rules.front().value == offer.values.front())
      reject_form(at, "without 'needs' and 'where' of its first value, which says any problem");
  }
  require_known(offers, key);
  return offers;
}

void for_each_promise(const json& forms,
                      const std::function<void(const std::vector<FormChoice>&, const json&)>& visit) {
  struct Promise {
    std::vector<FormChoice> choices;
    json contract;
  };
  std::vector<Promise> promises{{{}, json::object()}};  // the first: no choice, the subject's own contract
  for (const auto& [name, values] : forms.items()) {
    const std::size_t before = promises.size();
    for (const json& entry : values) {
      if (!entry.is_object() || !entry.contains("contract")) continue;
      for (std::size_t n = 0; n < before; ++n) {
        Promise promise = promises[n];
        promise.choices.push_back({name, entry.at("value").get<std::string>()});
        promise.contract.update(entry.at("contract"));
        promises.push_back(std::move(promise));
      }
      if (promises.size() > most_promises)
        throw usage_error(fmt::format("'supports.forms' has {} combinations of contracts and more", most_promises));
    }
  }
  for (std::size_t n = 1; n < promises.size(); ++n) visit(promises[n].choices, promises[n].contract);
}

}  // namespace attest
