#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace attest {

// Keeps a worker's traceback in `folder`, each once: those through the same lines to the same kind of error are one,
// whatever the values in its message. Returns the file that holds it; empty if there is none to keep, or no space, or
// too many.
std::string keep_traceback(const std::filesystem::path& folder, std::string_view traceback);

}  // namespace attest
