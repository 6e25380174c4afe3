#pragma once
#include <vector>

#include "cli/settings.hpp"
#include "ops/op.hpp"

namespace attest::cli {

// --policy and --contract, of verbs that judge without a subject to ask.
std::vector<Option> contract_options();

// The contract they say of an operation. Throws Error(usage) without --policy, and for a file or a key that is wrong.
ops::Contract read_contract(const Settings& settings, const ops::Op& op);

}  // namespace attest::cli
