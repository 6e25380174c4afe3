#pragma once
#include <functional>
#include <vector>

#include "engine/check.hpp"

namespace attest::engine {

// Tells whether a failure shows on a fresh instance after these calls.
using ShowsAfter = std::function<bool(const std::vector<Asked>&)>;

// The fewest of `calls`, which show it: without any one of them left it does not show any more, unless `spent` (may be
// empty) says so before that is known. The latest calls are kept where earlier ones would do as well, and laws only
// where the calls that they make are needed.
std::vector<Asked> fewest_calls(std::vector<Asked> calls, const ShowsAfter& shows, const std::function<bool()>& spent);

// `call` changed as `from` was to give `to`: each field in which these two differ, and in which `call` is as `from`.
// Returns `call` itself if the result is no problem.
Problem moved_along(const Problem& call, const Problem& from, const Problem& to);

}  // namespace attest::engine
