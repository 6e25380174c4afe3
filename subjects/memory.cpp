#include "subjects/memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace attest {
namespace {

// The limit of a control group; what is no number, as "max", is none.
std::uint64_t limit_in(const char* file) {
  std::uint64_t bytes = 0;
  std::ifstream stream(file);
  return stream >> bytes && bytes > 0 ? bytes : UINT64_MAX;
}

}  // namespace

std::uint64_t machine_memory() {
  static const std::uint64_t bytes = std::min(
      {static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
       limit_in("/sys/fs/cgroup/memory.max"), limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
  return bytes;
}

std::optional<std::uint64_t> held_memory(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  std::uint64_t kilobytes = 0, sum = 0;
  bool told = false;
  for (std::string key; status >> key;) {
    if ((key == "RssAnon:" || key == "VmSwap:") && status >> kilobytes) {
      sum += kilobytes;
      told = true;
    }
    status.ignore(1 << 16, '\n');
  }
  return told ? std::optional(sum << 10) : std::nullopt;
}

std::string memory_text(std::uint64_t bytes) {
  constexpr double megabyte = 1 << 20, gigabyte = 1 << 30;
  const auto size = static_cast<double>(bytes);
  return size < gigabyte ? fmt::format("{:.0f} MB", size / megabyte) : fmt::format("{:.1f} GB", size / gigabyte);
}

}  // namespace attest
