#pragma once
#include <vector>

#include <nlohmann/json.hpp>

#include "core/forms.hpp"

namespace attest {

// `supports.forms` of a describe: an object of lists, each entry a value, or {"value": VALUE, "contract": {...}} where it promises
// something else. Throws Error(usage) naming what is wrong.
std::vector<FormOffer> read_forms(const nlohmann::json& forms);

// Forms that promise something together, and the keys of the contract that they replace.
struct FormPromise {
  std::vector<FormChoice> forms;  // sorted by name
  nlohmann::json contract;
};
// Of every choice of values with a contract, one of a form: 256 at most, else Error(usage). Of two that replace the same key, the
// later name's counts. `forms` as read_forms() took it.
std::vector<FormPromise> form_promises(const nlohmann::json& forms);

}  // namespace attest
