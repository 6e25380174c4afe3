#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/policy_stages.hpp"
#include "core/stage_policy.hpp"

namespace attest {

struct StageText {
  std::string_view name, doc;
};

// The reader and writer of an operation's policies. Stage::storage is a stage of each. For policy*.cpp alone.
template <class Stage, std::size_t Count>
class PolicyText {
 public:
  using Policy = StagePolicy<Stage, Count>;
  using Named = NamedStagePolicy<Policy>;

  // The refusals of an item that names no format a stage takes, and of a pattern that matches no stage.
  struct Refusals {
    std::string_view no_format, no_stage;
  };
  // `op` owns the stages; from outside they are named OP.STAGE.
  PolicyText(std::string_view op, const std::array<StageText, Count>& stages, std::span<const Named> named,
             bool takes_tf32, Refusals refusals)
      : op_(op), stages_(stages), named_(named), takes_tf32_(takes_tf32), refusals_(refusals) {}

  // The policy named like a storage format. Throws Error(usage) where there is none.
  [[nodiscard]] Policy named_like(Format storage) const {
    if (const Named* named = find(name(storage))) return named->policy;
    throw usage_error(fmt::format("no policy is named like the storage format {}", name(storage)));
  }

  // Throws Error(usage), as policy_from_text() says.
  [[nodiscard]] Policy read(std::string_view text) const {
    if (text.empty())
      throw usage_error(fmt::format("the policy is empty: use a name ({}) or stage=format", names_of(named_)));
    const std::vector<std::string_view> items = items_of(text);
    const Named* const base = find(items.front());
    std::vector<Rule> rules;
    for (std::size_t i = base ? 1 : 0; i < items.size(); ++i) rules.push_back(read_rule(items[i]));

    Policy policy = base ? base->policy : Policy(Format::f32);
    if (!base)
      for (const Rule& rule : rules)
        if (matches(rule, stages_[static_cast<std::size_t>(Stage::storage)]))
          if (const Named* named = find(name(rule.format))) policy = named->policy;
    for (const Rule& rule : rules)
      for (std::size_t i = 0; i < Count; ++i)
        if (matches(rule, stages_[i])) policy.set(static_cast<Stage>(i), rule.format);
    return policy;
  }

  // The shortest text that read() gives back: a name, or a name and what differs from it.
  [[nodiscard]] std::string write(const Policy& policy) const {
    const auto differing = [&](const Named& row) {
      std::size_t count = 0;
      for (std::size_t i = 0; i < Count; ++i)
        count += policy[static_cast<Stage>(i)] != row.policy[static_cast<Stage>(i)];
      return count;
    };
    const Named& best = *std::ranges::min_element(named_, {}, differing);
    std::string text(best.name);
    for (std::size_t i = 0; i < Count; ++i) {
      const auto stage = static_cast<Stage>(i);
      if (policy[stage] != best.policy[stage]) text += fmt::format(",{}={}", stages_[i].name, name(policy[stage]));
    }
    return text;
  }

 private:
  struct Rule {
    std::string_view pattern;
    Format format;
  };
  [[nodiscard]] bool matches(const Rule& rule, const StageText& stage) const {
    return names_stage(rule.pattern, op_, stage.name);
  }

  template <class Rows>
  static std::string names_of(const Rows& rows) {
    std::string text;
    for (const auto& row : rows) text += (text.empty() ? "" : ", ") + std::string(row.name);
    return text;
  }
  static std::vector<std::string_view> items_of(std::string_view text) {
    std::vector<std::string_view> items;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      items.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return items;
  }
  [[nodiscard]] const Named* find(std::string_view name) const {
    const auto found = std::ranges::find(named_, name, &Named::name);
    return found == named_.end() ? nullptr : &*found;
  }
  [[nodiscard]] Rule read_rule(std::string_view item) const {
    const auto equals = item.find('=');
    if (equals == std::string_view::npos)
      throw usage_error(fmt::format("policy '{}' is neither a name ({}) nor stage=format", item, names_of(named_)));
    const auto format = format_from_name(item.substr(equals + 1));
    if (!format || (!traits(*format).in_memory() && !takes_tf32_))
      throw usage_error(fmt::format("policy item '{}' {}: use {}", item, refusals_.no_format,
                                    takes_tf32_ ? choice_of(every_format) : stored_format_names()));
    const Rule rule{item.substr(0, equals), *format};
    if (std::ranges::none_of(stages_, [&](const StageText& stage) { return matches(rule, stage); }))
      throw usage_error(
          fmt::format("policy pattern '{}' {}: {}", rule.pattern, refusals_.no_stage, stages_in_words(op_)));
    return rule;
  }

  std::string_view op_;
  const std::array<StageText, Count>& stages_;
  std::span<const Named> named_;
  bool takes_tf32_;
  Refusals refusals_;
};

}  // namespace attest
