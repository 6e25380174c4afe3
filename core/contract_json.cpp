#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "core/contract.hpp"
#include "core/contract_numbers.hpp"
#include "core/error.hpp"
#include "core/json_text.hpp"
#include "core/problem.hpp"

namespace attest {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The names of each enumeration, in its order.
constexpr auto empty_row_names = std::to_array<std::string_view>({"unspecified", "zero", "nan", "mean_v", "mean_all"});
constexpr auto batch_names = std::to_array<std::string_view>({"bounded", "bitwise"});
constexpr auto deterministic_names = std::to_array<std::string_view>({"no", "rerun", "threads"});
constexpr auto nan_names = std::to_array<std::string_view>({"unspecified", "propagates"});
constexpr auto merge_names = std::to_array<std::string_view>({"none", "flat", "chain"});
constexpr auto merge_weights_names = std::to_array<std::string_view>({"normalised", "lse"});
constexpr auto key_order_names = std::to_array<std::string_view>({"any", "ascending", "descending"});
constexpr auto order_names = std::to_array<std::string_view>({"scores", "values"});
constexpr auto tanh_names = std::to_array<std::string_view>({"relative", "absolute"});

[[noreturn]] void reject_key(std::string_view key, const std::string& allowed) {
  throw usage_error(fmt::format("contract: {} must be {}", key, allowed));
}

template <class Enum, std::size_t N>
Enum read_enum(const json& value, std::string_view key, const std::array<std::string_view, N>& names) {
  if (value.is_string())
    for (std::size_t i = 0; i < N; ++i)
      if (names[i] == value.get_ref<const std::string&>()) return static_cast<Enum>(i);
  reject_key(key, fmt::format("one of {}", fmt::join(names, ", ")));
}

bool read_flag(const json& value, std::string_view key) {
  if (!value.is_boolean()) reject_key(key, "true or false");
  return value.get<bool>();
}

double read_number(const json& value, std::string_view key, double lo, double hi) {
  if (!value.is_number() || !(value.get<double>() >= lo && value.get<double>() <= hi))
    reject_key(key, fmt::format("a number in {}..{}", lo, hi));
  return value.get<double>();
}

Index read_count(const json& value, std::string_view key) {
  if (!value.is_number_integer() || !(value.get<double>() >= 1 && value.get<double>() <= 1048576))
    reject_key(key, "an integer in 1..1048576");
  return value.get<Index>();
}

// "a", or ["a", "b"]; calls `take` for each and lets it refuse.
template <class Take>
void read_choices(const json& value, std::string_view key, const std::string& allowed, Take&& take) {
  const auto one = [&](const json& item) {
    if (!item.is_string() || !take(item.get_ref<const std::string&>())) reject_key(key, allowed);
  };
  if (value.is_array()) {
    if (value.empty()) reject_key(key, allowed);
    for (const json& item : value) one(item);
  } else {
    one(value);
  }
}

void read_fold(const json& value, Arithmetic& a) {
  a.fold_q = a.fold_k = a.fold_sqrt = a.fold_score = false;
  read_choices(value, "fold", "any of none, q, k, sqrt, score", [&](const std::string& item) {
    if (item == "q") a.fold_q = true;
    if (item == "k") a.fold_k = true;
    if (item == "sqrt") a.fold_sqrt = true;
    if (item == "score") a.fold_score = true;
    return item == "none" || item == "q" || item == "k" || item == "sqrt" || item == "score";
  });
}

void read_normalise(const json& value, Arithmetic& a) {
  a.normalise_after = a.normalise_before = a.normalise_lse = false;
  read_choices(value, "normalise", "any of after, before, lse", [&](const std::string& item) {
    if (item == "after") a.normalise_after = true;
    if (item == "before") a.normalise_before = true;
    if (item == "lse") a.normalise_lse = true;
    return item == "after" || item == "before" || item == "lse";
  });
}

void read_sum_of(const json& value, Arithmetic& a) {
  a.sum_of_rounded = a.sum_of_unrounded = false;
  read_choices(value, "sum_of", "any of rounded, unrounded", [&](const std::string& item) {
    if (item == "rounded") a.sum_of_rounded = true;
    if (item == "unrounded") a.sum_of_unrounded = true;
    return item == "rounded" || item == "unrounded";
  });
}

MaskedUnread read_masked_unread(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? MaskedUnread::yes : MaskedUnread::no;
  if (value == "beyond_length") return MaskedUnread::beyond_length;
  reject_key("masked_unread", "true, false or \"beyond_length\"");
}

// Tells whether `key` was one of the numbers of the arithmetic.
bool read_arithmetic(const std::string& key, const json& value, const Policy& policy, Arithmetic& a) {
  if (key == "exp_ulp")
    a.exp_ulp = read_number(value, key, 0.5, 0x1p20);
  else if (key == "exp_rel")
    a.exp_rel = read_number(value, key, 0, 0.5);
  else if (key == "div_ulp")
    a.div_ulp = read_number(value, key, 0.5, 0x1p20);
  else if (key == "tanh")
    a.tanh = read_enum<TanhError>(value, key, tanh_names);
  else if (key == "tanh_ulp")
    a.tanh_ulp = read_number(value, key, 0.5, 0x1p20);
  else if (key == "kappa")
    a.kappa = read_number(value, key, 1, 64);
  else if (key == "mma")
    a.mma = mma_from_json(value, policy);
  else if (key == "lazy")
    a.lazy = read_number(value, key, 0, 64);
  else if (key == "fold")
    read_fold(value, a);
  else if (key == "exp2")
    a.exp2 = read_flag(value, key);
  else if (key == "lse_merge")
    a.lse_merge = read_enum<LseMerge>(value, key, merge_names);
  else if (key == "merge_weights")
    a.merge_weights = read_enum<MergeWeights>(value, key, merge_weights_names);
  else if (key == "normalise")
    read_normalise(value, a);
  else if (key == "sum_of")
    read_sum_of(value, a);
  else if (key == "kv_tile_min")
    a.kv_tile_min = read_count(value, key);
  else if (key == "key_order")
    a.key_order = read_enum<KeyOrder>(value, key, key_order_names);
  else if (key == "splits_max")
    a.splits_max = read_count(value, key);
  else if (key == "order")
    a.order_by_values = read_enum<bool>(value, key, order_names);
  else if (key == "flush_to_zero")
    a.flush_to_zero = read_flag(value, key);
  else
    return false;
  return true;
}

bool read_semantics(const std::string& key, const json& value, Contract& c) {
  if (key == "empty_row")
    c.empty_row = read_enum<EmptyRow>(value, key, empty_row_names);
  else if (key == "softcap_before_bias")
    c.softcap_before_bias = read_flag(value, key);
  else if (key == "nan")
    c.nan = read_enum<NanRule>(value, key, nan_names);
  else if (key == "masked_unread")
    c.masked_unread = read_masked_unread(value);
  else if (key == "mask_added")
    c.mask_added = read_flag(value, key);
  else if (key == "batch_invariant")
    c.batch_invariant = read_enum<BatchInvariance>(value, key, batch_names);
  else if (key == "deterministic")
    c.deterministic = read_enum<Deterministic>(value, key, deterministic_names);
  else
    return false;
  return true;
}

template <class Enum, std::size_t N>
std::string_view text(Enum value, const std::array<std::string_view, N>& names) {
  return names[static_cast<std::size_t>(value)];
}

void write_arithmetic(const Arithmetic& a, ordered_json& object) {
  object["exp_ulp"] = a.exp_ulp;
  if (a.exp_rel) object["exp_rel"] = *a.exp_rel;
  object["div_ulp"] = a.div_ulp;
  object["tanh"] = text(a.tanh, tanh_names);
  object["tanh_ulp"] = a.tanh_ulp;
  object["kappa"] = a.kappa;
  if (a.mma) object["mma"] = to_json(*a.mma);
  if (a.lazy) object["lazy"] = *a.lazy;
  object["fold"] = ordered_json::array({"none"});
  if (a.fold_q) object["fold"].push_back("q");
  if (a.fold_k) object["fold"].push_back("k");
  if (a.fold_sqrt) object["fold"].push_back("sqrt");
  if (a.fold_score) object["fold"].push_back("score");
  object["exp2"] = a.exp2;
  object["lse_merge"] = text(a.lse_merge, merge_names);
  object["merge_weights"] = text(a.merge_weights, merge_weights_names);
  object["normalise"] = ordered_json::array();
  if (a.normalise_after) object["normalise"].push_back("after");
  if (a.normalise_before) object["normalise"].push_back("before");
  if (a.normalise_lse) object["normalise"].push_back("lse");
  object["sum_of"] = ordered_json::array();
  if (a.sum_of_rounded) object["sum_of"].push_back("rounded");
  if (a.sum_of_unrounded) object["sum_of"].push_back("unrounded");
  object["kv_tile_min"] = a.kv_tile_min;
  object["key_order"] = text(a.key_order, key_order_names);
  if (a.splits_max) object["splits_max"] = *a.splits_max;
  if (a.order_by_values) object["order"] = "values";
  object["flush_to_zero"] = a.flush_to_zero;
}

}  // namespace

Contract contract_from_json(const json& object, const Policy& policy) {
  if (!object.is_object()) throw usage_error("contract: it must be a JSON object");
  Contract contract = contract_for(policy);
  for (const auto& [key, value] : object.items()) {
    if (key == "policy") continue;  // per dtype: the caller chose
    if (!read_arithmetic(key, value, policy, contract.arithmetic) && !read_semantics(key, value, contract))
      throw usage_error(fmt::format("contract: there is no key '{}': docs/plugin.md lists them", key));
  }
  check_numbers(contract);
  return contract;
}

Contract contract_from_text(std::string_view object, const Policy& policy) {
  return contract_from_json(parse_json(object), policy);
}

bool is_by_dtype(std::string_view key, const json& value) {
  if (key == "policy" || !value.is_object() || value.empty() || (key == "mma" && is_mma_object(value))) return false;
  return (key != "depth" && key != "gemm_chain") || format_from_name(value.begin().key());
}

json contract_for_dtype(const json& object, Format dtype) {
  if (!object.is_object()) return object;
  json read = json::object();
  for (const auto& [key, value] : object.items()) {
    if (!is_by_dtype(key, value)) {
      read[key] = value;
      continue;
    }
    for (const auto& [text, number] : value.items())
      if (!format_from_name(text)) throw usage_error(fmt::format("contract.{}: '{}' is no dtype", key, text));
    if (const auto found = value.find(name(dtype)); found != value.end()) read[key] = *found;
  }
  return read;
}

ordered_json to_json(const Contract& contract) {
  ordered_json object;
  object["policy"] = to_text(contract.policy);
  write_arithmetic(contract.arithmetic, object);
  object["empty_row"] = text(contract.empty_row, empty_row_names);
  object["softcap_before_bias"] = contract.softcap_before_bias;
  object["nan"] = text(contract.nan, nan_names);
  switch (contract.masked_unread) {
    case MaskedUnread::no:
      object["masked_unread"] = false;
      break;
    case MaskedUnread::yes:
      object["masked_unread"] = true;
      break;
    case MaskedUnread::beyond_length:
      object["masked_unread"] = "beyond_length";
      break;
  }
  if (contract.mask_added) object["mask_added"] = true;
  if (contract.batch_invariant) object["batch_invariant"] = text(*contract.batch_invariant, batch_names);
  if (contract.deterministic) object["deterministic"] = text(*contract.deterministic, deterministic_names);
  return object;
}

}  // namespace attest
