#include "subjects/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/field.hpp"
#include "subjects/describe_contract.hpp"
#include "subjects/describe_documents.hpp"
#include "subjects/describe_forms.hpp"
#include "subjects/describe_layer_norm.hpp"
#include "subjects/describe_mha.hpp"
#include "subjects/describe_values.hpp"
#include "subjects/message.hpp"

namespace attest {
namespace describing {
namespace {

// The first operation, whose promises are SubjectInfo's own members.
struct OfOwn {
  using Stage = attest::Stage;
  using Policy = attest::Policy;
  static Policy policy_from_text(std::string_view text) { return attest::policy_from_text(text); }
  static Contract contract_from_json(const json& object, Format dtype, const Policy& policy) {
    return attest::contract_from_json(contract_for_dtype(object, dtype), policy);
  }
};

void read_dims(const json& object, const std::string& at, Supports& supports) {
  if (!object.is_object()) reject(at, "an object");
  for (const auto& [name, value] : object.items()) {
    const std::string key = fmt::format("{}.{}", at, name);
    const Field* const field = find_field(name);
    if (field == nullptr || field->extent == nullptr)
      throw usage_error(fmt::format("there is no '{}': dims are {}", one_line(key), extents(fields())));
    if (name == "dv" && value == "=d")
      supports.dv_equals_d = true;
    else
      supports.*field->extent = dim_range(value, key);
  }
}

void read_align(const json& value, const std::string& key, Supports& supports) {
  supports.top_left = supports.bottom_right = false;
  choices(value, key, std::to_array<std::string_view>({"top_left", "bottom_right"}),
          [&](std::size_t i) { (i == 0 ? supports.top_left : supports.bottom_right) = true; });
}

void read_bias_dtypes(const json& value, const std::string& key, Supports& supports) {
  supports.bias_types.fill(false);
  std::array<std::string_view, bias_formats.size() + 1> names{"same"};
  std::ranges::transform(bias_formats, names.begin() + 1, [](Format format) { return name(format); });
  choices(value, key, names, [&](std::size_t i) { supports.bias_types[i] = true; });
}

void read_stages(const json& value, const std::string& key, Supports& supports) {
  constexpr auto names = std::to_array<std::string_view>({"scores", "weights"});
  choices(value, key, names, [&](std::size_t i) { supports.stages.emplace_back(names[i]); });
}

std::string predicate(const json& value, const std::string& key) {
  if (!value.is_string()) reject(key, R"(a predicate such as "lk>=lq")");
  return value.get<std::string>();
}

// The flag of that name, a field's or another one. nullptr if there is none.
bool Supports::*flag_named(std::string_view key) {
  if (key == "gqa") return &Supports::gqa;
  if (key == "far") return &Supports::far;
  const auto found = std::ranges::find(fields(), key, &Field::supports_key);
  return found == fields().end() ? nullptr : found->offered;
}

Supports read_supports(const json& object, const std::string& at) {
  if (!object.is_object()) reject(at, "an object");
  Supports supports;
  for (const auto& [name, value] : object.items()) {
    const std::string key = fmt::format("{}.{}", at, name);
    if (bool Supports::*const known = flag_named(name))
      supports.*known = flag(value, key);
    else if (name == "align")
      read_align(value, key, supports);
    else if (name == "bias_dtypes")
      read_bias_dtypes(value, key, supports);
    else if (name == "stages")
      read_stages(value, key, supports);
    else if (name == "dims")
      read_dims(value, key, supports);
    else if (name == "forms")
      supports.forms = read_forms(value, key);
    else if (name == "drawn")
      supports.drawn = predicate(value, key);
    else if (name == "shapes_share_plans")
      supports.shapes_share_plans = flag(value, key);
    else if (name == "alignment")
      supports.alignment = alignment(value, key);
    else if (name == "scale")
      supports.scale = static_cast<Supports::Scale>(
          choice(value, key, std::to_array<std::string_view>({"any", "positive", "default"})));
    else if (name == "strides")
      supports.strides = strides(value, key);
    else
      throw usage_error(fmt::format("there is no key '{}': docs/plugin.md lists them", one_line(key)));
  }
  return supports;
}

// Reads the contract of each choice of forms, with the contract's other keys as they are.
void read_form_contracts(const json& forms, const json& contract, const std::string& at, SubjectInfo& info) {
  for_each_promise(forms, [&](const std::vector<FormChoice>& choices, const json& replaced) {
    json merged = contract;
    merged.update(replaced);
    SubjectInfo own;
    own.dtypes = info.dtypes;
    read_contract<OfOwn>(merged, at, own);
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

// The one that SubjectInfo's own members speak of.
std::string_view own_op() { return call_shapes().front()->op; }

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

// ---- what is said by operation --------------------------------------------------------------------------------------

bool has(const std::vector<std::string>& ops, std::string_view op) { return std::ranges::find(ops, op) != ops.end(); }

// `supports` and `contract` are of one operation, or objects of such by operation.
class ByOperation {
 public:
  ByOperation(const json& describe, const char* key, const std::vector<std::string>& ops)
      : object_(describe.value(key, json::object())), key_(key), ops_(ops) {
    if (!object_.is_object()) return;
    const auto is_op = [&](const std::string& name) { return has(ops, name) || find_call_shape(name) != nullptr; };
    for (const auto& [name, _] : object_.items()) by_operation_ = by_operation_ || is_op(name);
    if (!by_operation_) return;
    for (const auto& [name, value] : object_.items()) {
      if (!has(ops, name))
        throw usage_error(
            fmt::format("'{}.{}' is no operation in 'ops', and other keys of '{}' are: it is either of one "
                        "operation or an object by operation",
                        key, one_line(name), key));
      if (!value.is_object()) reject(at(name), "an object");
    }
  }

  // The part about an operation; one of several, without their names, is about the first.
  [[nodiscard]] json of(std::string_view op) const {
    if (by_operation_) return object_.value(std::string(op), json::object());
    return op == own_op() || !has(ops_, own_op()) ? object_ : json::object();
  }
  // The place of that part.
  [[nodiscard]] std::string at(std::string_view op) const {
    return by_operation_ ? fmt::format("{}.{}", key_, one_line(op)) : key_;
  }

 private:
  json object_;
  std::string key_;
  const std::vector<std::string>& ops_;
  bool by_operation_ = false;
};

void read_own(const ByOperation& supports, const ByOperation& contract, SubjectInfo& info) {
  const std::string_view op = own_op();
  const json offered = supports.of(op), promised = contract.of(op);
  info.supports = read_supports(offered, supports.at(op));
  read_contract<OfOwn>(promised, contract.at(op), info);
  read_form_contracts(offered.value("forms", json::object()), promised, contract.at(op), info);
}

std::string words(const json& value, const std::string& key) {
  if (!value.is_string()) reject(key, "a text");
  return one_line(value.get<std::string>());
}

SubjectInfo read(const json& object) {
  if (!object.is_object()) throw usage_error("it must be a JSON object");
  SubjectInfo info;
  for (const auto& [key, value] : object.items()) {
    if (key == "ops")
      info.ops = read_ops(value);
    else if (key == "dtypes")
      info.dtypes = dtypes(value, key);
    else if (key == "concurrent")
      info.concurrent = flag(value, key);
    else if (key == "device")
      info.device = words(value, key);
    else if (key == "plan_ms")
      info.plan_ms = milliseconds(value, key);
    else if (key == "warm_up_ms")
      info.warm_up_ms = milliseconds(value, key);
    else if (key != "supports" && key != "contract" && key != "documents")
      throw usage_error("there is no key '" + one_line(key) + "': docs/plugin.md lists them");
  }
  for (const char* needed : {"ops", "dtypes"})
    if (!object.contains(needed)) throw usage_error(fmt::format("'{}' is missing", needed));
  const ByOperation supports(object, "supports", info.ops), contract(object, "contract", info.ops);
  if (has(info.ops, own_op())) read_own(supports, contract, info);
  if (constexpr std::string_view op = "layer_norm"; has(info.ops, op))
    info.layer_norm = read_layer_norm(supports.of(op), supports.at(op), contract.of(op), contract.at(op), info.dtypes);
  if (constexpr std::string_view op = "mha"; has(info.ops, op))
    info.mha = read_mha(supports.of(op), supports.at(op), contract.of(op), contract.at(op), info.dtypes);
  info.documents = read_documents(object.value("documents", json::object()), info.supports.forms);
  return info;
}

}  // namespace
}  // namespace describing

SubjectInfo subject_info(const Offer& offer, const std::string& display_name) {
  if (!offer.error.empty()) throw Error(Exit::no_subject, display_name + ": " + one_line(offer.error));
  const nlohmann::json describe = parse_foreign(offer.describe);
  if (describe.is_discarded())
    throw Error(Exit::no_subject, fmt::format("{}: its describe is no JSON: {}", display_name,
                                              one_line(std::string_view(offer.describe).substr(0, 60))));
  SubjectInfo info;
  try {
    info = describing::read(describe);
  } catch (const Error& error) {
    throw Error(Exit::no_subject, fmt::format("{}: its describe cannot be used: {}", display_name, error.what()));
  }
  info.name = display_name;
  info.version = one_line(offer.version);
  info.libraries = offer.libraries;
  info.line = offer.line;
  if (std::ranges::find_first_of(info.ops, describing::tested_ops()) == info.ops.end())
    throw usage_error(fmt::format("{} offers {} alone, which this version does not test: it tests {}", display_name,
                                  one_line(fmt::format("{}", fmt::join(info.ops, ", "))),
                                  fmt::join(describing::tested_ops(), ", ")));
  return info;
}

}  // namespace attest
