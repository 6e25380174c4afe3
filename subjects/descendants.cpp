#include "subjects/descendants.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "subjects/memory.hpp"

namespace attest {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr unsigned of_its_group = 1u << 2;  // PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9

bool send_signal(int file, int signal, unsigned flags = 0) noexcept {
  return ::syscall(SYS_pidfd_send_signal, file, signal, nullptr, flags) == 0;
}

// The children of all its threads.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code error;
  for (fs::directory_iterator thread(fmt::format("/proc/{}/task", process), error), end; !error && thread != end;
       thread.increment(error)) {
    std::ifstream list(thread->path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

// A process below another, held so that it cannot be mistaken.
struct Held {
  pid_t process;
  int file;
};

}  // namespace

std::optional<ProcessStat> stat_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  ProcessStat stat{};
  return rest >> state >> stat.parent >> stat.group ? std::optional(stat) : std::nullopt;
}

bool is_traced(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string key; status >> key; status.ignore(1 << 16, '\n'))
    if (pid_t tracer = 0; key == "TracerPid:" && status >> tracer) return tracer != 0;
  return false;
}

int open_process(pid_t process) noexcept { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); }

int open_child(pid_t process, pid_t parent) {
  if (process <= 1 || process == ::getpid()) return -1;
  const int file = open_process(process);
  if (file < 0) return -1;
  const std::optional<ProcessStat> stat = stat_of(process);
  // Signal 0 reaches one that has ended, too, until it was asked for its status: the status that was read was this
  // one's.
  if (stat && stat->parent == parent && stat->group == process && send_signal(file, 0)) return file;
  ::close(file);
  return -1;
}

std::vector<pid_t> descendants_of(pid_t process) {
  std::vector<pid_t> below = children_of(process);
  for (std::size_t i = 0; i < below.size(); ++i)
    for (const pid_t child : children_of(below[i]))
      if (std::ranges::find(below, child) == below.end()) below.push_back(child);
  return below;
}

void kill_with_descendants(pid_t process, int file) {
  // Stopped from the top down, so that none starts another behind our back, and then killed.
  std::vector<Held> below;
  if (file >= 0 && send_signal(file, SIGSTOP)) {
    const auto hold_children_of = [&](pid_t parent) {
      for (const pid_t child : children_of(parent)) {
        const int its = open_process(child);
        const auto stat = its < 0 ? std::nullopt : stat_of(child);
        if (stat && stat->parent == parent && send_signal(its, SIGSTOP))
          below.push_back({child, its});
        else if (its >= 0)
          ::close(its);
      }
    };
    hold_children_of(process);
    for (std::size_t i = 0; i < below.size(); ++i) hold_children_of(below[i].process);
  }
  if (file < 0) {  // a child of ours, which has its number until we ask for its status
    ::kill(-process, SIGKILL);
    ::kill(process, SIGKILL);
  } else {
    if (!send_signal(file, SIGKILL, of_its_group) && errno == EINVAL && send_signal(file, 0)) ::kill(-process, SIGKILL);
    send_signal(file, SIGKILL);
  }
  for (const Held& one : below) {
    send_signal(one.file, SIGKILL);
    ::close(one.file);
  }
}

std::uint64_t held_with_descendants(pid_t process, std::uint64_t limit) {
  const std::vector<pid_t> below = descendants_of(process);
  std::uint64_t held = held_memory(process).value_or(0);
  if (below.empty()) return held;
  for (const pid_t one : below) held += held_memory(one).value_or(0);
  if (held <= limit) return held;
  held = proportional_memory(process);
  for (const pid_t one : below) held += proportional_memory(one);
  return held;
}

namespace orphans {
namespace {

bool taken_in = false;
std::mutex lock;
std::set<pid_t> ours;

// The processes that are there; asks those that have ended for their status. The lock is held: nobody else does.
std::vector<pid_t> found() {
  std::vector<pid_t> left;
  if (!taken_in) return left;
  for (const pid_t child : children_of(::getpid()))
    if (!ours.contains(child) && ::waitpid(child, nullptr, WNOHANG) == 0) left.push_back(child);
  return left;
}

void kill_found() {
  constexpr std::chrono::seconds patience{2};
  const auto end = Clock::now() + patience;
  for (std::vector<pid_t> left = found(); !left.empty() && Clock::now() < end; left = found()) {
    for (const pid_t one : left) {
      const int file = open_process(one);
      kill_with_descendants(one, file);
      if (file >= 0) ::close(file);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

void take_in() {
  const bool told = ::access(fmt::format("/proc/self/task/{}/children", ::getpid()).c_str(), R_OK) == 0;
  taken_in = told && children_of(::getpid()).empty() && ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

std::unique_lock<std::mutex> starting() { return std::unique_lock(lock); }

void started(pid_t process, const std::unique_lock<std::mutex>&) { ours.insert(process); }

void ended(pid_t process) {
  const std::lock_guard guard(lock);
  ours.erase(process);
  if (ours.empty()) kill_found();
}

std::uint64_t held(std::uint64_t limit) {
  const std::lock_guard guard(lock);
  std::uint64_t sum = 0;
  for (const pid_t one : found()) sum += held_with_descendants(one, limit);
  return sum;
}

void kill() {
  const std::lock_guard guard(lock);
  kill_found();
}

}  // namespace orphans

}  // namespace attest
