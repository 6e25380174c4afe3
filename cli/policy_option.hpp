#pragma once
#include <optional>

#include "cli/settings.hpp"
#include "ops/op.hpp"

namespace attest::cli {

// --policy, whatever verb has it.
Option policy_option();

// Reads --policy for an operation; nullopt without it. The parts that speak of other operations alone are told on
// stderr. Throws Error(usage), also for a pattern that matches no stage of any operation.
std::optional<ops::Policy> read_policy(const Settings& settings, const ops::Op& op);

}  // namespace attest::cli
