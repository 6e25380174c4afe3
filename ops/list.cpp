#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "ops/attention.hpp"
#include "ops/layer_norm.hpp"
#include "ops/mha.hpp"

namespace attest::ops {

// In the order of the alternatives of Problem.
std::span<const Op* const> all_ops() noexcept {
  static const std::array<const Op*, 3> ops{&attention_op(), &layer_norm_op(), &mha_op()};
  return ops;
}

const Op* find_op(std::string_view name) noexcept {
  const auto all = all_ops();
  const auto found = std::ranges::find(all, name, &Op::name);
  return found == all.end() ? nullptr : *found;
}

const Op& first_op(const SubjectInfo& info) {
  for (const Op* op : all_ops())
    if (op->offered(info)) return *op;
  throw usage_error(
      fmt::format("{} offers {} alone, which this version does not test", info.name, fmt::join(info.ops, ", ")));
}

std::span<const Law> all_laws() {
  static const std::vector<Law> laws = [] {
    std::vector<Law> all;
    for (const Op* op : all_ops()) std::ranges::copy(op->laws(), std::back_inserter(all));
    return all;
  }();
  return laws;
}

const Law* find_law(std::string_view name) {
  const auto all = all_laws();
  const auto found = std::ranges::find(all, name, &Law::name);
  return found == all.end() ? nullptr : &*found;
}

const Law* find_law(std::string_view name, const Op& op) {
  const auto all = all_laws();
  const auto found = std::ranges::find_if(all, [&](const Law& law) { return law.op == &op && law.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::size_t law_named(std::string_view name, const Op& op) {
  const Law* found = find_law(name, op);
  if (found == nullptr)
    throw usage_error("there is no property '" + std::string(name) + "': `attest list properties` names them");
  return static_cast<std::size_t>(found - all_laws().data());
}

}  // namespace attest::ops
