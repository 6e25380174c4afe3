#include "core/policy.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "core/glob.hpp"

namespace attest {
namespace {

struct StageRow {
  std::string_view name, doc;
};
constexpr std::array<StageRow, stage_count> stages{{
    {"storage", "q, k, v in memory"},
    {"operand", "what q, k, the weights and v are rounded to on entering a product"},
    {"scale", "a scale folded into q, k or the score"},
    {"qk", "accumulation of q.k"},
    {"score", "the stored score, and the score after the bias"},
    {"softcap", "c tanh(s/c)"},
    {"softmax", "maximum, exp and sum"},
    {"weights", "the weights on entering the second product"},
    {"pv", "accumulation of weights times v"},
    {"partial", "split-KV partial results"},
    {"output", "the output tensor"},
}};

// 16-bit storage around f32 arithmetic, as most fused kernels promise it.
Policy mixed(Format storage) {
  return Policy(Format::f32)
      .set(Stage::storage, storage)
      .set(Stage::operand, storage)
      .set(Stage::weights, storage)
      .set(Stage::output, storage);
}

const std::array<NamedPolicy, 9>& named_table() {
  static const std::array<NamedPolicy, 9> rows{{
      {"f32", Policy(Format::f32), "every stage f32; what f32 is held to where no policy is declared"},
      {"f64", Policy(Format::f64), "every stage f64; likewise for f64"},
      {"f16", mixed(Format::f16), "f16 storage and weights, f32 arithmetic"},
      {"bf16", mixed(Format::bf16), "bf16 storage and weights, f32 arithmetic"},
      {"f16-scores16", mixed(Format::f16).set(Stage::scale, Format::f16).set(Stage::score, Format::f16),
       "as f16, with the scale and the stored scores in f16"},
      {"f16-acc16",
       mixed(Format::f16)
           .set(Stage::scale, Format::f16)
           .set(Stage::qk, Format::f16)
           .set(Stage::score, Format::f16)
           .set(Stage::pv, Format::f16),
       "as f16, with both products accumulated in f16"},
      {"f16-softmax16", mixed(Format::f16).set(Stage::softcap, Format::f16).set(Stage::softmax, Format::f16),
       "as f16, with softcap and softmax in f16"},
      {"f16-all", Policy(Format::f16), "every stage f16; likewise for f16"},
      {"bf16-all", Policy(Format::bf16), "every stage bf16; likewise for bf16"},
  }};
  return rows;
}

std::string joined_stage_names() {
  std::string text;
  for (const auto& row : stages) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

std::string joined_policy_names() {
  std::string text;
  for (const auto& row : named_table()) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

const NamedPolicy* find_named(std::string_view name) {
  const auto& rows = named_table();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const NamedPolicy& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

struct Rule {
  std::string pattern;
  Format format;
};

bool lives_in_memory(Stage stage) { return stage == Stage::storage || stage == Stage::output; }

Rule parse_rule(std::string_view item) {
  const auto equals = item.find('=');
  if (equals == std::string_view::npos)
    throw usage_error("policy '" + std::string(item) + "' is neither a name (" + joined_policy_names() +
                      ") nor stage=format");
  const auto format = format_from_name(item.substr(equals + 1));
  if (!format)
    throw usage_error("policy item '" + std::string(item) + "' names no format: use f16, bf16, tf32, f32 or f64");
  Rule rule{std::string(item.substr(0, equals)), *format};
  bool matched = false;
  for (const auto& stage : stages) matched = matched || glob_matches(rule.pattern, stage.name);
  if (!matched)
    throw usage_error("policy pattern '" + rule.pattern + "' matches no stage: the stages are " + joined_stage_names());
  return rule;
}

}  // namespace

std::string_view name(Stage stage) noexcept { return stages[static_cast<std::size_t>(stage)].name; }
std::string_view describe(Stage stage) noexcept { return stages[static_cast<std::size_t>(stage)].doc; }
std::span<const NamedPolicy> named_policies() noexcept { return named_table(); }

Policy policy_for(Format storage) {
  if (const auto* named = find_named(name(storage))) return named->policy;
  throw usage_error("no policy is named like the storage format " + std::string(name(storage)));
}

Policy policy_from_text(std::string_view text) {
  if (text.empty())
    throw usage_error("the policy is empty: use a name (" + joined_policy_names() + ") or stage=format");
  std::vector<std::string_view> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const NamedPolicy* base = find_named(items.front());
  std::vector<Rule> rules;
  for (std::size_t i = base ? 1 : 0; i < items.size(); ++i) rules.push_back(parse_rule(items[i]));

  Policy policy = base ? base->policy : Policy(Format::f32);
  if (!base) {
    for (const auto& rule : rules)
      if (glob_matches(rule.pattern, name(Stage::storage)) && find_named(name(rule.format)))
        policy = find_named(name(rule.format))->policy;
  }
  for (const auto& rule : rules)
    for (std::size_t i = 0; i < stage_count; ++i)
      if (glob_matches(rule.pattern, stages[i].name)) policy.set(static_cast<Stage>(i), rule.format);
  for (std::size_t i = 0; i < stage_count; ++i)
    if (policy[static_cast<Stage>(i)] == Format::tf32 && lives_in_memory(static_cast<Stage>(i)))
      throw usage_error("policy '" + std::string(text) + "' puts tf32 in memory (" + std::string(stages[i].name) +
                        "): tf32 is an operand format, use f32 there");
  return policy;
}

std::string to_text(const Policy& policy) {
  const NamedPolicy* best = nullptr;
  std::size_t fewest = stage_count + 1;
  for (const auto& row : named_table()) {
    std::size_t differing = 0;
    for (std::size_t i = 0; i < stage_count; ++i)
      differing += policy[static_cast<Stage>(i)] != row.policy[static_cast<Stage>(i)];
    if (differing < fewest) {
      fewest = differing;
      best = &row;
    }
  }
  std::string text(best->name);
  for (std::size_t i = 0; i < stage_count; ++i) {
    const auto stage = static_cast<Stage>(i);
    if (policy[stage] != best->policy[stage])
      text += "," + std::string(stages[i].name) + "=" + std::string(name(policy[stage]));
  }
  return text;
}

}  // namespace attest
