#pragma once
#include <vector>

#include "cli/settings.hpp"
#include "core/contract.hpp"

namespace attest::cli {

// --policy and --contract, of verbs that judge without a subject to ask.
std::vector<Option> contract_options();

// The contract they say. Throws Error(usage) without --policy, and for a file or a key that is wrong.
Contract read_contract(const Settings& settings);

}  // namespace attest::cli
