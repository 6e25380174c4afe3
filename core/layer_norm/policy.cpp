#include "core/layer_norm/policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/glob.hpp"

namespace attest::layer_norm {
namespace {

struct StageText {
  std::string_view name, doc;
};
constexpr std::array<StageText, stage_count> stage_texts{{
    {"storage", "x, residual, gamma, beta and sum_out in memory"},
    {"sum", "x + residual, before it is rounded to storage"},
    {"statistics", "sums, mean, variance, variance + epsilon and its reciprocal root"},
    {"normalise", "(x - mean) times the reciprocal root"},
    {"affine", "times gamma, plus beta"},
    {"output", "the output tensor"},
}};

Policy mixed_policy(Format storage) {
  return Policy(Format::f32).set(Stage::storage, storage).set(Stage::output, storage);
}

const std::array<NamedPolicy, 6>& policy_table() {
  static const std::array<NamedPolicy, 6> rows{{
      {"f32", Policy(Format::f32), "every stage f32"},
      {"f64", Policy(Format::f64), "every stage f64"},
      {"f16", mixed_policy(Format::f16), "f16 storage and output, f32 arithmetic"},
      {"bf16", mixed_policy(Format::bf16), "bf16 storage and output, f32 arithmetic"},
      {"f16-all", Policy(Format::f16), "every stage f16"},
      {"bf16-all", Policy(Format::bf16), "every stage bf16"},
  }};
  return rows;
}

const NamedPolicy* find_policy(std::string_view name) {
  const auto& rows = policy_table();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const NamedPolicy& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

template <class Rows>
std::string names_of(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

struct StageRule {
  std::string_view pattern;
  Format format;
};

StageRule read_stage_rule(std::string_view item) {
  const auto equals = item.find('=');
  if (equals == std::string_view::npos)
    throw usage_error(
        fmt::format("policy '{}' is neither a name ({}) nor stage=format", item, names_of(policy_table())));
  const auto format = format_from_name(item.substr(equals + 1));
  if (!format || format == Format::tf32)
    throw usage_error(
        fmt::format("policy item '{}' names no format of a layer_norm stage: use f16, bf16, f32 or f64", item));
  const StageRule rule{item.substr(0, equals), *format};
  if (std::ranges::none_of(stage_texts, [&](const StageText& row) { return glob_matches(rule.pattern, row.name); }))
    throw usage_error(fmt::format("policy pattern '{}' matches no stage of layer_norm: the stages are {}", rule.pattern,
                                  names_of(stage_texts)));
  return rule;
}

std::vector<std::string_view> items_of(std::string_view text) {
  std::vector<std::string_view> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

}  // namespace

std::string_view name(Stage stage) noexcept { return stage_texts[static_cast<std::size_t>(stage)].name; }
std::string_view describe(Stage stage) noexcept { return stage_texts[static_cast<std::size_t>(stage)].doc; }
std::span<const NamedPolicy> named_policies() noexcept { return policy_table(); }

Policy policy_for(Format storage) {
  if (const NamedPolicy* named = find_policy(attest::name(storage))) return named->policy;
  throw usage_error(fmt::format("no policy is named like the storage format {}", attest::name(storage)));
}

Policy policy_from_text(std::string_view text) {
  if (text.empty())
    throw usage_error(fmt::format("the policy is empty: use a name ({}) or stage=format", names_of(policy_table())));
  const std::vector<std::string_view> items = items_of(text);
  const NamedPolicy* const base = find_policy(items.front());
  std::vector<StageRule> rules;
  for (std::size_t i = base ? 1 : 0; i < items.size(); ++i) rules.push_back(read_stage_rule(items[i]));

  Policy policy = base ? base->policy : Policy(Format::f32);
  if (!base)
    for (const StageRule& rule : rules)
      if (glob_matches(rule.pattern, name(Stage::storage))) policy = policy_for(rule.format);
  for (const StageRule& rule : rules)
    for (std::size_t i = 0; i < stage_count; ++i)
      if (glob_matches(rule.pattern, stage_texts[i].name)) policy.set(static_cast<Stage>(i), rule.format);
  return policy;
}

std::string to_text(const Policy& policy) {
  const auto differing = [&](const NamedPolicy& row) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < stage_count; ++i)
      count += policy[static_cast<Stage>(i)] != row.policy[static_cast<Stage>(i)];
    return count;
  };
  const NamedPolicy& best = *std::ranges::min_element(policy_table(), {}, differing);
  std::string text(best.name);
  for (std::size_t i = 0; i < stage_count; ++i) {
    const auto stage = static_cast<Stage>(i);
    if (policy[stage] != best.policy[stage])
      text += fmt::format(",{}={}", stage_texts[i].name, attest::name(policy[stage]));
  }
  return text;
}

}  // namespace attest::layer_norm
