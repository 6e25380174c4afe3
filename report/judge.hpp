#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/judge.hpp"

namespace attest::report {

// What `attest judge` prints: the call, the verdict, and of a failure the first and the worst element and how many there are.
std::string judgement_text(const ops::SavedCall& call, const ops::Contract& contract,
                           const engine::Judgement& judgement);
// The object that its --json writes, but for `exit`.
nlohmann::ordered_json judgement_json(const ops::SavedCall& call, const ops::Contract& contract,
                                      const engine::Judgement& judgement);

}  // namespace attest::report
