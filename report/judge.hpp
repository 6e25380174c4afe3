#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/judge.hpp"
#include "report/look.hpp"

namespace attest::report {

// The first lines about a saved call: the call, its policy, and the parts that were read in another way than saved.
// Then an object with its operation, shape and options.
std::string call_text(const ops::SavedCall& call, const ops::Contract& contract);
nlohmann::ordered_json call_json(const ops::SavedCall& call);

// The text of `attest judge`: the call, the verdict, and for a failure the first and the worst element and how many
// there are.
std::string judgement_text(const ops::SavedCall& call, const ops::Contract& contract,
                           const engine::Judgement& judgement, const Look& look = {});
// The object that its --json writes, but for `exit`.
nlohmann::ordered_json judgement_json(const ops::SavedCall& call, const ops::Contract& contract,
                                      const engine::Judgement& judgement);

}  // namespace attest::report
