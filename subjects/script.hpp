#pragma once
#include <string>
#include <string_view>

#include "core/inputs.hpp"
#include "core/problem.hpp"

namespace attest {

// Python source that, with q, k, v and, where present, bias, keep, kv_lengths and scale as NumPy arrays in scope, runs
// the subject without attest and leaves its answer in `got`. Empty for a subject that no script can run. `python`: the
// interpreter that has the adapter's packages; empty for $ATTEST_PYTHON, else python3. Throws Error(no_subject) if the
// adapter cannot be started there.
std::string subject_code(std::string_view subject, const Problem& problem, const Inputs& inputs,
                         const std::string& python);

}  // namespace attest
