#include "subjects/memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace attest {
namespace {

// The limit of a control group; a word that is no number, as "max", is none.
std::uint64_t limit_in(const char* file) {
  std::uint64_t bytes = 0;
  std::ifstream stream(file);
  return stream >> bytes && bytes > 0 ? bytes : UINT64_MAX;
}

// The sum of two lines of a file of /proc; nullopt if it has neither.
std::optional<std::uint64_t> kilobytes_of(const std::string& file, std::string_view one, std::string_view other) {
  std::ifstream stream(file);
  std::uint64_t kilobytes = 0, sum = 0;
  bool told = false;
  for (std::string key; stream >> key;) {
    if ((key == one || key == other) && stream >> kilobytes) {
      sum += kilobytes;
      told = true;
    }
    stream.ignore(1 << 16, '\n');
  }
  return told ? std::optional(sum << 10) : std::nullopt;
}

}  // namespace

std::uint64_t machine_memory() {
  static const std::uint64_t bytes = std::min(
      {static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
       limit_in("/sys/fs/cgroup/memory.max"), limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
  return bytes;
}

std::optional<std::uint64_t> held_memory(pid_t process) {
  return kilobytes_of(fmt::format("/proc/{}/status", process), "RssAnon:", "VmSwap:");
}

std::uint64_t proportional_memory(pid_t process) {
  const auto shared = kilobytes_of(fmt::format("/proc/{}/smaps_rollup", process), "Pss_Anon:", "SwapPss:");
  return shared ? *shared : held_memory(process).value_or(0);
}

std::string memory_text(std::uint64_t bytes) {
  constexpr double megabyte = 1 << 20, gigabyte = 1 << 30;
  const auto size = static_cast<double>(bytes);
  return size < gigabyte ? fmt::format("{:.0f} MB", size / megabyte) : fmt::format("{:.1f} GB", size / gigabyte);
}

}  // namespace attest
