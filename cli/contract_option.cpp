#include "cli/contract_option.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/policy_option.hpp"
#include "core/contract.hpp"
#include "core/error.hpp"
#include "core/json_text.hpp"
#include "engine/file.hpp"

namespace attest::cli {
namespace {

using nlohmann::json;

// "exp_ulp=20,fold=q+k": values are JSON where they can be, else words; several words of one key are joined by '+'.
json object_of_items(const std::string& text) {
  json object = json::object();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    const auto equals = item.find('=');
    if (equals == std::string::npos || equals == 0)
      throw usage_error(fmt::format("--contract: '{}' is neither a file nor key=value", item));
    const std::string key = item.substr(0, equals), value = item.substr(equals + 1);
    if (object.contains(key)) throw usage_error(fmt::format("--contract: {} is given twice", key));
    const json parsed = parse_json_or_discard(value);
    if (parsed.is_primitive() && !parsed.is_discarded()) {
      object[key] = parsed;
    } else if (value.find('+') == std::string::npos) {
      object[key] = value;
    } else {
      for (std::size_t word = 0; word <= value.size();) {
        const std::size_t plus = std::min(value.find('+', word), value.size());
        object[key].push_back(value.substr(word, plus - word));
        word = plus + 1;
      }
    }
  }
  return object;
}

// A contract, or an object that holds one, as describe and manifest.json do. If it holds those of several operations,
// that of `op` counts.
json object_of_file(const std::string& path, const ops::Op& op) {
  constexpr std::uintmax_t largest = 1 << 20;
  constexpr int deepest = 16;
  const json object = parse_json_or_discard(engine::read_file(path, largest), deepest);
  if (!object.is_object()) throw usage_error(fmt::format("--contract {}: it holds no JSON object", path));
  const json contract = object.contains("contract") ? object["contract"] : object;
  const auto own = contract.find(op.name());
  return own != contract.end() && own->is_object() ? *own : contract;
}

// A contract may state its policy, as text or as an object from dtype to text: not another one than --policy.
void require_same_policy(const json& object, const ops::Policy& policy) {
  auto stated = object.find("policy");
  if (stated == object.end()) return;
  const std::string dtype(name(storage_of(policy)));
  json text = *stated;
  if (text.is_object()) text = text.value(dtype, json());
  if (!text.is_string() || policy.op().policy_from_text(text.get<std::string>()) != policy)
    throw usage_error(
        fmt::format("--contract: its policy {} is not --policy {}: leave it out, or give the same to both",
                    json_text(text), to_text(policy)));
}

}  // namespace

std::vector<Option> contract_options() {
  return {{"policy", "NAME|STAGE=FORMAT,...", "precision policy the kernel promises; `attest list policies`"},
          {"contract", "FILE|KEY=VALUE,...", "further promises, as describe states them: exp_ulp=20,fold=q+k"}};
}

ops::Contract read_contract(const Settings& settings, const ops::Op& op) {
  const auto policy = read_policy(settings, op);
  if (!policy) throw usage_error("--policy is needed: what the kernel promises to compute in; `attest list policies`");
  const auto text = settings.text("contract");
  if (!text) return op.contract_from_json(json::object(), *policy);
  const bool file = text->find('=') == std::string::npos;
  const json object = file ? object_of_file(*text, op) : object_of_items(*text);
  if (object.is_object()) require_same_policy(object, *policy);
  return op.contract_from_json(contract_for_dtype(object, storage_of(*policy)), *policy);
}

}  // namespace attest::cli
