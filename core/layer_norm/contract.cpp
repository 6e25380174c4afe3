#include "core/layer_norm/contract.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"

namespace attest::layer_norm {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The names of each enumeration, in its order.
constexpr auto variance_names =
    std::to_array<std::string_view>({"two_pass", "two_pass_corrected", "welford", "shifted", "one_pass"});
constexpr auto merge_kinds = std::to_array<std::string_view>({"none", "delta", "weighted"});
constexpr auto form_kinds = std::to_array<std::string_view>({"centred", "scale_bias", "folded", "weighted_scale"});
constexpr auto sum_kinds = std::to_array<std::string_view>({"rounded", "unrounded"});
constexpr auto order_kinds = std::to_array<std::string_view>({"positions", "values"});
constexpr auto nan_kinds = std::to_array<std::string_view>({"unspecified", "propagates"});
constexpr auto batch_kinds = std::to_array<std::string_view>({"bounded", "bitwise"});
constexpr auto repeat_kinds = std::to_array<std::string_view>({"no", "rerun", "threads"});

constexpr Index most_lanes = 65536, most_depth = Index{1} << 20;

[[noreturn]] void refuse(std::string_view key, const std::string& allowed) {
  throw usage_error(fmt::format("contract: {} must be {}", key, allowed));
}

template <class Enum, std::size_t N>
Enum one_of(const json& value, std::string_view key, const std::array<std::string_view, N>& names) {
  if (value.is_string())
    for (std::size_t i = 0; i < N; ++i)
      if (names[i] == value.get_ref<const std::string&>()) return static_cast<Enum>(i);
  refuse(key, fmt::format("one of {}", fmt::join(names, ", ")));
}

template <class Enum, std::size_t N>
std::string_view named(Enum value, const std::array<std::string_view, N>& names) {
  return names[static_cast<std::size_t>(value)];
}

bool true_or_false(const json& value, std::string_view key) {
  if (!value.is_boolean()) refuse(key, "true or false");
  return value.get<bool>();
}

double number_in(const json& value, std::string_view key, double lo, double hi) {
  if (!value.is_number() || !(value.get<double>() >= lo && value.get<double>() <= hi))
    refuse(key, fmt::format("a number in {}..{}", lo, hi));
  return value.get<double>();
}

Index integer_in(const json& value, std::string_view key, Index lo, Index hi) {
  if (!value.is_number_integer() || !(value.get<double>() >= static_cast<double>(lo)) ||
      !(value.get<double>() <= static_cast<double>(hi)))
    refuse(key, fmt::format("an integer in {}..{}", lo, hi));
  return value.get<Index>();
}

Depth read_depth(const json& value) {
  if (value.is_number()) return integer_in(value, "depth", 1, most_depth);
  const std::string allowed = R"(a number, {"lanes": L}, {"lanes": L, "block": b} or {"pairwise": b})";
  if (!value.is_object() || value.empty()) refuse("depth", allowed);
  if (value.size() == 1 && value.contains("pairwise"))
    return Pairwise{integer_in(value["pairwise"], "depth.pairwise", 1, most_lanes)};
  Lanes lanes;
  if (!value.contains("lanes")) refuse("depth", allowed);
  for (const auto& [key, number] : value.items()) {
    if (key == "lanes")
      lanes.lanes = integer_in(number, "depth.lanes", 1, most_lanes);
    else if (key == "block")
      lanes.block = integer_in(number, "depth.block", 1, most_lanes);
    else
      refuse("depth", allowed);
  }
  return lanes;
}

void write_depth(const Depth& depth, ordered_json& object) {
  if (const auto* number = std::get_if<Index>(&depth)) object["depth"] = *number;
  if (const auto* lanes = std::get_if<Lanes>(&depth)) {
    object["depth"]["lanes"] = lanes->lanes;
    if (lanes->block != 1) object["depth"]["block"] = lanes->block;
  }
  if (const auto* pairwise = std::get_if<Pairwise>(&depth)) object["depth"]["pairwise"] = pairwise->block;
}

FlushToZero read_flush(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? FlushToZero::results : FlushToZero::no;
  if (value == "results") return FlushToZero::results;
  if (value == "inputs") return FlushToZero::inputs;
  refuse("flush_to_zero", R"(true, false, "results" or "inputs")");
}

bool read_number(const std::string& key, const json& value, Arithmetic& a) {
  if (key == "variance")
    a.variance = one_of<Variance>(value, key, variance_names);
  else if (key == "depth")
    a.depth = read_depth(value);
  else if (key == "merge")
    a.merge = one_of<Merge>(value, key, merge_kinds);
  else if (key == "merge_depth")
    a.merge_depth = integer_in(value, key, 0, most_lanes);
  else if (key == "rsqrt_ulp")
    a.rsqrt_ulp = number_in(value, key, 0.5, 0x1p20);
  else if (key == "rsqrt_rel")
    a.rsqrt_rel = number_in(value, key, 0, 0.5);
  else if (key == "form")
    a.form = one_of<NormForm>(value, key, form_kinds);
  else if (key == "norm_rounded")
    a.norm_rounded = true_or_false(value, key);
  else if (key == "clamp")
    a.clamp = true_or_false(value, key);
  else if (key == "flush_to_zero")
    a.flush_to_zero = read_flush(value);
  else if (key == "sum_of")
    a.sum_of = one_of<SumOf>(value, key, sum_kinds);
  else if (key == "order")
    a.order_by_values = one_of<bool>(value, key, order_kinds);
  else if (key == "kappa")
    a.kappa = number_in(value, key, 1, 64);
  else
    return false;
  return true;
}

bool read_meaning(const std::string& key, const json& value, Contract& c) {
  if (key == "gamma_offset")
    c.gamma_offset = static_cast<int>(integer_in(value, key, 0, 1));
  else if (key == "epsilon") {
    if (value != "inside")
      refuse(key, "\"inside\": a kernel that adds epsilon outside the root computes another function");
  } else if (key == "nan")
    c.nan = one_of<NanRule>(value, key, nan_kinds);
  else if (key == "batch_invariant")
    c.batch_invariant = one_of<BatchInvariance>(value, key, batch_kinds);
  else if (key == "deterministic")
    c.deterministic = one_of<Deterministic>(value, key, repeat_kinds);
  else
    return false;
  return true;
}

// Numbers that contradict each other, or leave nothing of a result.
void check(const Contract& contract) {
  const Arithmetic& a = contract.arithmetic;
  const double limit = 1 / (2 * unit_roundoff(contract.policy[Stage::statistics]));
  if (!a.rsqrt_rel && a.rsqrt_ulp >= limit)
    throw usage_error(
        fmt::format("contract: rsqrt_ulp {} lets a reciprocal root err by all of its result where statistics is {}: it "
                    "must be less than {}",
                    a.rsqrt_ulp, attest::name(contract.policy[Stage::statistics]), limit));
  if (a.order_by_values && contract.deterministic.value_or(Deterministic::no) != Deterministic::no)
    throw usage_error(
        "contract: order says that sums look at values, deterministic that they do not: declare one of the two");
  const bool welford = a.variance == Variance::welford;
  if ((a.merge != Merge::none || a.merge_depth > 0) && !welford)
    throw usage_error(fmt::format("contract: merge and merge_depth are of welford, and variance is {}: leave them out",
                                  name(a.variance)));
  if ((a.merge == Merge::none) != (a.merge_depth == 0))
    throw usage_error(
        "contract: merge says how parts of a row are joined and merge_depth how often: give both or neither");
  if (a.clamp && a.variance != Variance::one_pass && a.variance != Variance::shifted)
    throw usage_error(fmt::format(
        "contract: clamp is of one_pass and shifted, and variance is {}, which never is negative", name(a.variance)));
  if (a.norm_rounded && (a.form == NormForm::folded || a.form == NormForm::weighted_scale))
    throw usage_error(
        fmt::format("contract: norm_rounded has no meaning in form {}, which makes no normalised value: leave "
                    "one of them out",
                    name(a.form)));
}

// Returns ceil(log2 x) of a whole number, and 0 up to 1.
double ceil_log2(double x) {
  return x > 1 ? static_cast<double>(std::bit_width(static_cast<std::uint64_t>(x) - 1)) : 0;
}

}  // namespace

std::string_view name(Variance variance) noexcept { return named(variance, variance_names); }
std::string_view name(NormForm form) noexcept { return named(form, form_kinds); }

double Arithmetic::additions(Index n) const noexcept {
  const double count = static_cast<double>(n), most = std::max(count - 1, 1.0);
  double h = most;
  if (const auto* number = std::get_if<Index>(&depth)) h = static_cast<double>(*number);
  if (const auto* l = std::get_if<Lanes>(&depth)) {
    const double lanes = std::min(static_cast<double>(l->lanes), std::max(count, 1.0));
    const double block = static_cast<double>(l->block);
    h = std::ceil(count / (lanes * block)) + ceil_log2(lanes) + ceil_log2(block);
  }
  if (const auto* p = std::get_if<Pairwise>(&depth)) h = ceil_log2(count) + static_cast<double>(p->block);
  return std::clamp(h, 1.0, most);
}

Contract contract_for(const Policy& policy) {
  Contract contract;
  contract.policy = policy;
  return contract;
}

Contract contract_from_json(const json& object, const Policy& policy) {
  if (!object.is_object()) throw usage_error("contract: it must be a JSON object");
  Contract contract = contract_for(policy);
  for (const auto& [key, value] : object.items()) {
    if (key == "policy") continue;  // per dtype: the caller chose
    if (!read_number(key, value, contract.arithmetic) && !read_meaning(key, value, contract))
      throw usage_error(fmt::format("contract: layer_norm has no key '{}': docs/layer-norm.md lists them", key));
  }
  check(contract);
  return contract;
}

ordered_json to_json(const Contract& contract) {
  const Arithmetic& a = contract.arithmetic;
  ordered_json object;
  object["policy"] = to_text(contract.policy);
  object["variance"] = named(a.variance, variance_names);
  write_depth(a.depth, object);
  if (a.merge != Merge::none) {
    object["merge"] = named(a.merge, merge_kinds);
    object["merge_depth"] = a.merge_depth;
  }
  object["rsqrt_ulp"] = a.rsqrt_ulp;
  if (a.rsqrt_rel) object["rsqrt_rel"] = *a.rsqrt_rel;
  object["form"] = named(a.form, form_kinds);
  object["norm_rounded"] = a.norm_rounded;
  if (a.clamp) object["clamp"] = true;
  switch (a.flush_to_zero) {
    case FlushToZero::no:
      object["flush_to_zero"] = false;
      break;
    case FlushToZero::results:
      object["flush_to_zero"] = "results";
      break;
    case FlushToZero::inputs:
      object["flush_to_zero"] = "inputs";
      break;
  }
  object["sum_of"] = named(a.sum_of, sum_kinds);
  if (a.order_by_values) object["order"] = "values";
  object["kappa"] = a.kappa;
  object["gamma_offset"] = contract.gamma_offset;
  object["nan"] = named(contract.nan, nan_kinds);
  if (contract.batch_invariant) object["batch_invariant"] = named(*contract.batch_invariant, batch_kinds);
  if (contract.deterministic) object["deterministic"] = named(*contract.deterministic, repeat_kinds);
  return object;
}

}  // namespace attest::layer_norm
