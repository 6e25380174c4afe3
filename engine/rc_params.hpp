#pragma once
#include <string_view>

namespace attest::engine {

// Checks a RC_PARAMS text, "key=value key=value": RapidCheck itself ignores a key it does not know, which would make a
// mistyped limit a silent one. Throws Error(usage) naming the key and what is allowed.
void check_rc_params(std::string_view text);

}  // namespace attest::engine
