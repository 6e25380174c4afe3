#include "core/policy_stages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "core/glob.hpp"
#include "core/layer_norm/policy.hpp"
#include "core/policy.hpp"

namespace attest {
namespace {

struct Stages {
  std::string_view op;
  std::vector<std::string_view> names;
  std::string_view part{};  // an operation that this one is made of: its stages may be said by that name, too
};

template <class Stage>
Stages of_op(std::string_view op, std::size_t count) {
  Stages all{op, {}};
  for (std::size_t i = 0; i < count; ++i) all.names.push_back(name(static_cast<Stage>(i)));
  return all;
}

std::span<const Stages> all_stages() {
  static const std::vector<Stages> list = [] {
    std::vector<Stages> all{of_op<Stage>("attention", stage_count),
                            of_op<layer_norm::Stage>("layer_norm", layer_norm::stage_count)};
    Stages block = of_op<Stage>("mha", stage_count);
    block.names.push_back("gemm");
    block.part = "attention";
    all.push_back(std::move(block));
    return all;
  }();
  return list;
}

bool names_some(std::string_view pattern, const Stages& of) {
  return std::ranges::any_of(of.names, [&](std::string_view stage) {
    return names_stage(pattern, of.op, stage) || (!of.part.empty() && names_stage(pattern, of.part, stage));
  });
}

// The operations, but for `own`, that have a stage of the pattern.
std::vector<std::string_view> others_that_match(std::string_view pattern, std::string_view own) {
  std::vector<std::string_view> ops;
  for (const Stages& of : all_stages())
    if (of.op != own && names_some(pattern, of)) ops.push_back(of.op);
  return ops;
}

}  // namespace

bool names_stage(std::string_view pattern, std::string_view op, std::string_view stage) {
  const bool from_outside = pattern.starts_with(op) || pattern.find('.') != std::string_view::npos;
  return glob_matches(pattern, stage) || (from_outside && glob_matches(pattern, fmt::format("{}.{}", op, stage)));
}

const std::vector<std::string_view>& stages_of(std::string_view op) {
  static const std::vector<std::string_view> none;
  const auto all = all_stages();
  const auto found = std::ranges::find(all, op, &Stages::op);
  return found == all.end() ? none : found->names;
}

PolicyShare policy_share(std::string_view op, std::string_view text) {
  PolicyShare share;
  const auto all = all_stages();
  const auto own = std::ranges::find(all, op, &Stages::op);
  bool first = true;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin), pattern = item.substr(0, item.find('='));
    begin = end + 1;
    const bool rule = pattern.size() < item.size();
    if (rule && own != all.end() && !names_some(pattern, *own))
      if (const auto others = others_that_match(pattern, op); !others.empty()) {
        share.elsewhere.push_back(fmt::format("policy pattern '{}' matches stages of {} alone, and says nothing of {}",
                                              pattern, fmt::join(others, " and "), op));
        continue;
      }
    share.text += (first ? "" : ",") + std::string(item);
    first = false;
  }
  if (first) share.text = "f32";
  return share;
}

std::string stages_in_words(std::string_view op) {
  std::string text = fmt::format("the stages are {}", fmt::join(stages_of(op), ", "));
  for (const Stages& of : all_stages())
    if (of.op != op) text += fmt::format("; those of {} are {}.{}", of.op, of.op, fmt::join(of.names, ", "));
  return text;
}

}  // namespace attest
