#include "subjects/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/field.hpp"
#include "core/glob.hpp"
#include "subjects/describe_documents.hpp"
#include "subjects/describe_forms.hpp"
#include "subjects/message.hpp"

namespace attest {
namespace {

using nlohmann::json;

[[noreturn]] void reject(const std::string& key, const std::string& allowed) {
  throw usage_error(fmt::format("'{}' must be {}", key, allowed));
}

bool flag(const json& value, const std::string& key) {
  if (!value.is_boolean()) reject(key, "true or false");
  return value.get<bool>();
}

// A list of some of `allowed`; `take` is called with the index of each.
template <std::size_t N, class Take>
void choices(const json& value, const std::string& key, const std::array<std::string_view, N>& allowed, Take&& take) {
  const std::string wanted = fmt::format("a list of {}", fmt::join(allowed, ", "));
  if (!value.is_array()) reject(key, wanted);
  for (const json& item : value) {
    const auto found = item.is_string() ? std::find(allowed.begin(), allowed.end(), item.get_ref<const std::string&>())
                                        : allowed.end();
    if (found == allowed.end()) reject(key, wanted);
    take(static_cast<std::size_t>(found - allowed.begin()));
  }
}

template <std::size_t N>
std::size_t choice(const json& value, const std::string& key, const std::array<std::string_view, N>& allowed) {
  const auto found = value.is_string() ? std::find(allowed.begin(), allowed.end(), value.get_ref<const std::string&>())
                                       : allowed.end();
  if (found == allowed.end()) reject(key, fmt::format("one of {}", fmt::join(allowed, ", ")));
  return static_cast<std::size_t>(found - allowed.begin());
}

double milliseconds(const json& value, const std::string& key) {
  constexpr double most = 3'600'000;
  if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= most))
    reject(key, fmt::format("a number of milliseconds from 0 to {:.0f}", most));
  return value.get<double>();
}

Index count(const json& value, const std::string& key, Index least) {
  if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) || value.get<double>() > 0x1p40)
    reject(key, fmt::format("an integer of at least {}", least));
  return value.get<Index>();
}

// Tensors begin at multiples of 256 bytes, or off them as their layout says.
Index alignment(const json& value, const std::string& key) {
  const Index bytes = count(value, key, 1);
  if (bytes > 256 || !std::has_single_bit(static_cast<std::uint64_t>(bytes))) reject(key, "a power of two up to 256");
  return bytes;
}

// [min, max or null, multiple of]
DimRange dim_range(const json& value, const std::string& key) {
  if (!value.is_array() || value.size() != 3) reject(key, "a list [min, max or null, multiple of]");
  DimRange range;
  range.min = count(value[0], key, 0);
  if (!value[1].is_null()) range.max = count(value[1], key, range.min);
  range.multiple = count(value[2], key, 1);
  if (range.max / range.multiple * range.multiple < range.min)
    reject(key, "a range that holds a multiple of its third number");
  return range;
}

std::vector<std::string_view> extents() {
  std::vector<std::string_view> names;
  for (const Field& field : fields())
    if (field.extent) names.push_back(field.name);
  return names;
}

void read_dims(const json& object, Supports& supports) {
  if (!object.is_object()) reject("supports.dims", "an object");
  for (const auto& [name, value] : object.items()) {
    const std::string key = "supports.dims." + name;
    const Field* const field = find_field(name);
    if (field == nullptr || field->extent == nullptr)
      throw usage_error(fmt::format("there is no '{}': dims are {}", key, fmt::join(extents(), ", ")));
    if (name == "dv" && value == "=d")
      supports.dv_equals_d = true;
    else
      supports.*field->extent = dim_range(value, key);
  }
}

void read_align(const json& value, Supports& supports) {
  supports.top_left = supports.bottom_right = false;
  choices(value, "supports.align", std::to_array<std::string_view>({"top_left", "bottom_right"}),
          [&](std::size_t i) { (i == 0 ? supports.top_left : supports.bottom_right) = true; });
}

void read_bias_dtypes(const json& value, Supports& supports) {
  supports.bias_types.fill(false);
  choices(value, "supports.bias_dtypes", std::to_array<std::string_view>({"same", "f32", "f16", "bf16", "f64"}),
          [&](std::size_t i) { supports.bias_types[i] = true; });
}

void read_stages(const json& value, Supports& supports) {
  constexpr auto names = std::to_array<std::string_view>({"scores", "weights"});
  choices(value, "supports.stages", names, [&](std::size_t i) { supports.stages.emplace_back(names[i]); });
}

// The flag of that name: of a field, or of what is no field. nullptr if there is none.
bool Supports::*flag_named(std::string_view key) {
  if (key == "gqa") return &Supports::gqa;
  if (key == "far") return &Supports::far;
  const auto found = std::ranges::find(fields(), key, &Field::supports_key);
  return found == fields().end() ? nullptr : found->offered;
}

Supports read_supports(const json& object) {
  if (!object.is_object()) reject("supports", "an object");
  Supports supports;
  for (const auto& [name, value] : object.items()) {
    const std::string key = "supports." + name;
    if (bool Supports::*const known = flag_named(name))
      supports.*known = flag(value, key);
    else if (name == "align")
      read_align(value, supports);
    else if (name == "bias_dtypes")
      read_bias_dtypes(value, supports);
    else if (name == "stages")
      read_stages(value, supports);
    else if (name == "dims")
      read_dims(value, supports);
    else if (name == "forms")
      supports.forms = read_forms(value);
    else if (name == "alignment")
      supports.alignment = alignment(value, key);
    else if (name == "scale")
      supports.scale = static_cast<Supports::Scale>(
          choice(value, key, std::to_array<std::string_view>({"any", "positive", "default"})));
    else if (name == "strides")
      supports.strides = static_cast<Supports::Strides>(
          choice(value, key, std::to_array<std::string_view>({"any", "last_dim_contiguous", "contiguous"})));
    else
      throw usage_error(fmt::format("there is no key '{}': docs/plugin.md lists them", key));
  }
  return supports;
}

std::vector<Format> read_dtypes(const json& value) {
  constexpr auto names = std::to_array<std::string_view>({"f16", "bf16", "f32", "f64"});
  std::vector<Format> dtypes;
  choices(value, "dtypes", names, [&](std::size_t i) {
    const Format format = *format_from_name(names[i]);
    if (std::find(dtypes.begin(), dtypes.end(), format) == dtypes.end()) dtypes.push_back(format);
  });
  if (dtypes.empty()) reject("dtypes", "a list that is not empty");
  return dtypes;
}

// The most a correct kernel of this storage format may round: every stage in it, for the 16-bit formats.
Policy most_generous(Format dtype) { return Policy(dtype); }

// Whether a policy text says what q, k and v are stored in: by a leading name, or by a pattern that matches the stage.
bool names_storage(std::string_view text) {
  if (text.substr(0, text.find(',')).find('=') == std::string_view::npos) return true;
  for (std::size_t at = 0; at != std::string_view::npos && at < text.size();) {
    const std::string_view item = text.substr(at, text.find(',', at) - at);
    if (glob_matches(item.substr(0, item.find('=')), name(Stage::storage))) return true;
    at = text.find(',', at) == std::string_view::npos ? std::string_view::npos : text.find(',', at) + 1;
  }
  return false;
}

// The policy that a text declares for a dtype; nullopt if it speaks of another storage format.
std::optional<Policy> policy_for_dtype(const json& value, const std::string& key, Format dtype) {
  if (!value.is_string()) reject(key, "a policy, or an object of a policy for each dtype");
  const auto& text = value.get_ref<const std::string&>();
  const Policy policy = policy_from_text(names_storage(text) ? text : std::string(name(dtype)) + "," + text);
  if (policy[Stage::storage] != dtype) return std::nullopt;
  return policy;
}

void read_policies(const json& contract, SubjectInfo& info) {
  const auto declared = contract.find("policy");
  const bool declares = declared != contract.end();
  info.policy_declared = declares;
  if (declares && declared->is_object())
    for (const auto& [dtype, text] : declared->items())
      if (!format_from_name(dtype) || !std::count(info.dtypes.begin(), info.dtypes.end(), *format_from_name(dtype)))
        throw usage_error("'contract.policy' speaks of dtype '" + dtype + "', which the subject does not offer");
  for (const Format dtype : info.dtypes) {
    const std::string dtype_name(name(dtype));
    std::optional<Policy> policy;
    if (declares && !declared->is_object()) {
      policy = policy_for_dtype(*declared, "contract.policy", dtype);
    } else if (declares && declared->contains(dtype_name)) {
      policy = policy_for_dtype(declared->at(dtype_name), "contract.policy." + dtype_name, dtype);
      if (!policy) reject("contract.policy." + dtype_name, "a policy that stores " + dtype_name);
    }
    info.policies.push_back(policy.value_or(most_generous(dtype)));
    if (!policy) info.policy_declared = false;
  }
}

void check_dtypes(const json& contract, const std::vector<Format>& dtypes) {
  if (!contract.is_object()) return;
  for (const auto& [key, value] : contract.items()) {
    if (key == "policy" || !value.is_object() || (key == "mma" && is_mma_object(value))) continue;
    for (const auto& [text, number] : value.items())
      if (!format_from_name(text) || !std::count(dtypes.begin(), dtypes.end(), *format_from_name(text)))
        throw usage_error(
            fmt::format("'contract.{}' speaks of dtype '{}', which the subject does not offer", key, text));
  }
}

// Everything but the policies, which are read: numbers may differ between dtypes, semantics may not.
void read_contract(const json& contract, SubjectInfo& info) {
  check_dtypes(contract, info.dtypes);
  for (std::size_t n = 0; n < info.dtypes.size(); ++n) {
    Contract of_dtype = contract_from_json(contract_for_dtype(contract, info.dtypes[n]), info.policies[n]);
    info.arithmetic.push_back(of_dtype.arithmetic);
    of_dtype.policy = most_generous(info.dtypes.front());
    of_dtype.arithmetic = info.arithmetic.front();
    if (info.arithmetic.size() == 1) info.semantics = of_dtype;
    if (!(of_dtype == info.semantics))
      throw usage_error("'contract' differs between dtypes in more than its policy and its numbers");
  }
}

// What each choice of forms promises, with the contract's other keys as they are.
void read_form_contracts(const json& describe, const json& contract, SubjectInfo& info) {
  const json forms = describe.value("supports", json::object()).value("forms", json::object());
  for_each_promise(forms, [&](const std::vector<FormChoice>& choices, const json& replaced) {
    json merged = contract;
    merged.update(replaced);
    SubjectInfo own;
    own.dtypes = info.dtypes;
    read_policies(merged, own);
    read_contract(merged, own);
    FormContract& read = info.form_contracts.emplace_back();
    read.forms = choices;
    for (const Format dtype : info.dtypes) read.contracts.push_back(own.contract(dtype));
  });
}

// The operations that this version tests.
std::vector<std::string_view> tested_ops() {
  std::vector<std::string_view> ops;
  for (const CallShape* shape : call_shapes()) ops.push_back(shape->op);
  return ops;
}

std::vector<std::string> read_ops(const json& value) {
  const std::string wanted = fmt::format(R"(a list such as ["{}"])", tested_ops().front());
  if (!value.is_array() || value.empty()) reject("ops", wanted);
  std::vector<std::string> ops;
  for (const json& op : value) {
    if (!op.is_string()) reject("ops", wanted);
    ops.push_back(op.get<std::string>());
  }
  return ops;
}

SubjectInfo read(const json& object) {
  if (!object.is_object()) throw usage_error("it must be a JSON object");
  SubjectInfo info;
  for (const auto& [key, value] : object.items()) {
    if (key == "ops")
      info.ops = read_ops(value);
    else if (key == "dtypes")
      info.dtypes = read_dtypes(value);
    else if (key == "concurrent")
      info.concurrent = flag(value, key);
    else if (key == "plan_ms")
      info.plan_ms = milliseconds(value, key);
    else if (key == "warm_up_ms")
      info.warm_up_ms = milliseconds(value, key);
    else if (key == "supports")
      info.supports = read_supports(value);
    else if (key != "contract" && key != "documents")
      throw usage_error("there is no key '" + one_line(key) + "': docs/plugin.md lists them");
  }
  for (const char* needed : {"ops", "dtypes"})
    if (!object.contains(needed)) throw usage_error(fmt::format("'{}' is missing", needed));
  const json contract = object.value("contract", json::object());
  read_policies(contract, info);
  read_contract(contract, info);
  read_form_contracts(object, contract, info);
  info.documents = read_documents(object.value("documents", json::object()), info.supports.forms);
  return info;
}

}  // namespace

SubjectInfo subject_info(const Offer& offer, const std::string& display_name) {
  if (!offer.error.empty()) throw Error(Exit::no_subject, display_name + ": " + one_line(offer.error));
  const json describe = parse_foreign(offer.describe);
  if (describe.is_discarded())
    throw Error(Exit::no_subject, fmt::format("{}: its describe is no JSON: {}", display_name,
                                              one_line(std::string_view(offer.describe).substr(0, 60))));
  SubjectInfo info;
  try {
    info = read(describe);
  } catch (const Error& error) {
    throw Error(Exit::no_subject, fmt::format("{}: its describe cannot be used: {}", display_name, error.what()));
  }
  info.name = display_name;
  info.version = one_line(offer.version);
  if (std::ranges::find_first_of(info.ops, tested_ops()) == info.ops.end())
    throw usage_error(fmt::format("{} offers {} alone, which this version does not test: it tests {}", display_name,
                                  one_line(fmt::format("{}", fmt::join(info.ops, ", "))),
                                  fmt::join(tested_ops(), ", ")));
  return info;
}

}  // namespace attest
