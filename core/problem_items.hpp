#pragma once
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace attest {

// What a problem in JSON says, of an operation whose edits are texts: calls `item` with each key and its value as the problem's line
// has it, and `edit` with each of an array of edits, of which `example` is one. Throws Error(usage) for any other value.
void read_problem_items(const nlohmann::json& object, std::string_view example,
                        const std::function<void(std::string_view key, const std::string& value)>& item,
                        const std::function<void(const std::string& text)>& edit);

}  // namespace attest
