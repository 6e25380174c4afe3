#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "core/call.hpp"
#include "subjects/resolve.hpp"

namespace attest {

// Python source that, with the call's inputs as NumPy arrays and its numbers in scope, by their names, runs
// the subject without attest and leaves its answer in `got`; it is to be run from a file in the folder `beside`. Empty
// for a subject that no script can run. `subject`: a shipped adapter or script.py[:NAME], which is started unless it is
// an adapter in C++. Throws Error(no_subject) if it does not start, and Error(usage) if it has several subjects and
// none is named.
std::string subject_code(std::string_view subject, const Call& call, const ResolveOptions& options,
                         const std::filesystem::path& beside);

}  // namespace attest
