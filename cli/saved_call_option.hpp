#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "cli/settings.hpp"
#include "ops/op.hpp"

namespace attest::cli {

// The options that state what saved tensors do not tell about their call, for verbs that read them: --q NAME, --layout,
// --scale, --causal, ..., of every operation.
std::vector<Option> saved_call_options();

// --op; the first operation without it. Throws Error(usage) for one that there is not, and for an option of another
// operation.
const ops::Op& saved_op(const Settings& settings);

// The values of those options. `settings` must outlive it.
ops::SavedWords saved_words(const Settings& settings);

// A number of at least `lo`.
std::optional<Index> count_of(const Settings& settings, std::string_view key, std::uint64_t lo);

}  // namespace attest::cli
