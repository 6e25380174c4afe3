#pragma once
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/forms.hpp"

namespace attest {

// `supports.forms` of a describe: an object of lists, each entry a value, or {"value": VALUE, "contract": {...}} where
// it promises something else. `key` is where it stands. Throws Error(usage) naming what is wrong.
std::vector<FormOffer> read_forms(const nlohmann::json& forms, const std::string& key);

// Calls `visit` with every choice of values that have a contract, one of a form, and the keys of the contract that they
// replace: among two values that replace the same key, that of the later name counts. `forms` as read_forms() took it.
// Throws Error(usage) of more than 255 choices.
void for_each_promise(
    const nlohmann::json& forms,
    const std::function<void(const std::vector<FormChoice>& choices, const nlohmann::json& contract)>& visit);

}  // namespace attest
