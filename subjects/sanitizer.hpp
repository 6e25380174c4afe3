#pragma once
#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "core/call.hpp"

// Plug-ins that were compiled with -fsanitize=address.
namespace attest {

// The runtime library that a plug-in wants before all others, as LD_PRELOAD takes it; empty if it wants none, or is no
// shared object. clang names none in what it links: then it is looked for where clang is installed.
std::string wanted_sanitizer(const std::filesystem::path& plugin);

// Runs this program again with that library in LD_PRELOAD, and returns where there is none to load, or it is there.
void preload_sanitizer(const char* plugin, char** argv);

// While it lives, a sanitized plug-in that touches what is no element of the call's tensors, their guards and gaps,
// ends with a report of its sanitizer. Does nothing in a process without one. `memory` holds all of the tensors.
class PoisonedGaps {
 public:
  PoisonedGaps(const Call& call, std::span<std::byte> memory);
  ~PoisonedGaps();
  PoisonedGaps(const PoisonedGaps&) = delete;
  PoisonedGaps& operator=(const PoisonedGaps&) = delete;

 private:
  const Call& call_;
  const std::span<std::byte> memory_;
};

// The report of that process's sanitizer at the end of a log, in a line: "AddressSanitizer: use-after-poison
// kernel.c:12 in attend"; empty if nothing.
std::string sanitizer_report(const std::filesystem::path& log, pid_t process);

}  // namespace attest
