#pragma once
#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace attest {

// The facts that /proc tells of a process.
struct ProcessStat {
  pid_t parent, group;
};
std::optional<ProcessStat> stat_of(pid_t process);

// True if another process watches it (ptrace), and is told before its parent that it has ended.
bool is_traced(pid_t process);

// An open file of a process, pidfd, which goes on meaning that one when its number is another's. -1 where there is
// none.
int open_process(pid_t process) noexcept;
// The same of a child of `parent` that leads its group, which nothing but the system is asked about; -1 for any other.
int open_child(pid_t process, pid_t parent);

// All below a process, parents before their children; none where the system does not tell whose children there are
// (CONFIG_PROC_CHILDREN).
std::vector<pid_t> descendants_of(pid_t process);

// Kills a process that leads its group, its group, and all that descends from it, wherever that has gone. `file`: the
// process's. Only one that nobody has asked for its status, or whose file is open here, is surely meant by its number.
void kill_with_descendants(pid_t process, int file);

// Bytes that a process and all below it hold for themselves; memory that a fork shares counts once if it would else
// make them more than `limit`.
std::uint64_t held_with_descendants(pid_t process, std::uint64_t limit);

// Children that this program did not start: their parents, below a subject, have ended. They come here, and not to the
// first process of the system, once take_in() was called; so that they can be counted, and end no later than the last
// subject. For any number of threads.
namespace orphans {

// Takes orphans in, for a program that starts no processes but subjects. Does nothing if it has children already.
void take_in();
// Held while a process is started, until started() has said its number.
std::unique_lock<std::mutex> starting();
void started(pid_t process, const std::unique_lock<std::mutex>& lock);
// Forgets a worker that was asked for its status. Those that are left end with the last one.
void ended(pid_t process);
// Bytes that they and all below them hold.
std::uint64_t held(std::uint64_t limit);
void kill();

}  // namespace orphans

}  // namespace attest
