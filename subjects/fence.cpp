#include "subjects/fence.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace attest {
namespace {

// <linux/landlock.h> of the systems that this is built on may be older than the one that it runs on. The numbers are
// those of every architecture but alpha.
constexpr long create_ruleset = 444, restrict_self = 446;
constexpr std::uint32_t ask_version = 1;
constexpr long version_with_signals = 6;
struct Ruleset {
  std::uint64_t files, network, scoped;
};
constexpr std::uint64_t make_block_device = std::uint64_t{1} << 11;  // LANDLOCK_ACCESS_FS_MAKE_BLOCK
constexpr std::uint64_t signals = std::uint64_t{1} << 1;             // LANDLOCK_SCOPE_SIGNAL

long version() noexcept {
  static const long found = ::syscall(create_ruleset, nullptr, 0, ask_version);
  return found;
}

}  // namespace

Fence fence_here() noexcept {
  if (version() < 1) return Fence::none;
  return version() < version_with_signals ? Fence::memory : Fence::memory_and_signals;
}

bool fence_this_thread() noexcept {
  if (fence_here() == Fence::none) return false;
  const bool whole = fence_here() == Fence::memory_and_signals;
  // An older system has no empty set of rules: an act that no kernel does is forbidden.
  const Ruleset rules{whole ? 0 : make_block_device, 0, whole ? signals : 0};
  const int file = static_cast<int>(::syscall(create_ruleset, &rules, whole ? sizeof rules : sizeof rules.files, 0));
  if (file < 0) return false;
  // A process without that right gives up becoming another user by set-user-ID programs.
  bool inside = ::syscall(restrict_self, file, 0) == 0;
  if (!inside && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) inside = ::syscall(restrict_self, file, 0) == 0;
  ::close(file);
  return inside;
}

}  // namespace attest
