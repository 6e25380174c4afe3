#pragma once
#include <filesystem>
#include <string>

namespace attest::engine {

// The processes that hold a GPU open, as far as the user may look into them: "4242 (python3), 4243 (python3)"; empty if there are none.
// `proc`: where the system tells of processes.
std::string holders_of_gpus(const std::filesystem::path& proc = "/proc");

}  // namespace attest::engine
