#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "cli/settings.hpp"
#include "core/policy.hpp"
#include "engine/saved_call.hpp"

namespace attest::cli {

// What saved tensors do not say of their call, of verbs that read them: --q NAME, --layout, --scale, --causal, ...
std::vector<Option> saved_call_options();

// What those say, under `policy`. Throws Error(usage).
engine::SavedCallOptions read_saved_call(const Settings& settings, const Policy& policy);

// A number of at least `lo`.
std::optional<Index> count_of(const Settings& settings, std::string_view key, std::uint64_t lo);

}  // namespace attest::cli
