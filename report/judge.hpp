#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/judge.hpp"

namespace attest::report {

// A call that was saved, its policy, and what was read otherwise than it stands there: the first lines of what is printed of it. And
// its operation, shape and options.
std::string call_text(const ops::SavedCall& call, const ops::Contract& contract);
nlohmann::ordered_json call_json(const ops::SavedCall& call);

// What `attest judge` prints: the call, the verdict, and of a failure the first and the worst element and how many there are.
std::string judgement_text(const ops::SavedCall& call, const ops::Contract& contract,
                           const engine::Judgement& judgement);
// The object that its --json writes, but for `exit`.
nlohmann::ordered_json judgement_json(const ops::SavedCall& call, const ops::Contract& contract,
                                      const engine::Judgement& judgement);

}  // namespace attest::report
