#pragma once
#include <optional>

#include "properties/trial.hpp"

namespace attest::properties {

// Why no inputs make every score exactly 0 under this contract and these options: a short, fixed reason.
std::optional<std::string> scores_cannot_vanish(const Problem& problem, const Contract& contract);

// Returns the problem's inputs with q = 0, k = +-1 and every bias that is not -inf 0: all open keys of a row have the
// score 0, exactly, and the weight exp(0) = 1 before normalisation, with the exp2 trick too. A bias of -inf stays,
// unless a softcap after it would make a finite score of it.
Inputs with_vanishing_scores(const Trial& trial);

}  // namespace attest::properties
