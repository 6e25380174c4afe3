// An attention block in the arithmetic of a scheme, by docs/mha.md alone.
#pragma once

#include <attest/plugin.h>

#include "scheme.hpp"

namespace hostile {

/// Writes `out` and the stages that are asked for. False: no order of the declared chain sums so many terms.
bool attend_block(const attest_mha& call, const Scheme& scheme);

}  // namespace hostile
