#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "core/inputs.hpp"
#include "core/problem.hpp"
#include "subjects/resolve.hpp"

namespace attest {

// Python source that, with q, k, v and, where present, bias, keep, kv_lengths and scale as NumPy arrays in scope, runs
// the subject without attest and leaves its answer in `got`; it is to be run from a file in the folder `beside`. Empty for a
// subject that no script can run. `subject`: a shipped adapter or script.py[:NAME], which is started unless it is an adapter in C++. Throws Error(no_subject)
// if it does not start, and Error(usage) if it has several subjects and none is named.
std::string subject_code(std::string_view subject, const Problem& problem, const Inputs& inputs,
                         const ResolveOptions& options, const std::filesystem::path& beside);

}  // namespace attest
