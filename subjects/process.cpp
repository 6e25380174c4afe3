#include "subjects/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/error.hpp"
#include "subjects/descriptor.hpp"
#include "subjects/memory.hpp"

namespace attest {
namespace {

// posix_spawn's two attribute objects, freed on every way out.
struct Spawn {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  Spawn(int socket, Process::Shared memory, int log) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, memory.arena, Process::arena_file);
    posix_spawn_file_actions_adddup2(&actions, memory.mailbox, Process::mailbox_file);
    posix_spawn_file_actions_addclosefrom_np(&actions, Process::mailbox_file + 1);
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGXFSZ);  // a log as long as files may be is not the subject's crash
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
};

// A limit of the system (setrlimit) would count what is only reserved, of which sanitizers and device libraries take more than
// any machine has, and would end a kernel by a null pointer somewhere: what it holds is looked at instead.
constexpr std::chrono::milliseconds between_looks{50};

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace

Process::Process(const std::vector<std::string>& argv, Shared memory, const std::filesystem::path& log,
                 std::uint64_t most_memory)
    : most_memory_(most_memory) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw internal_error(std::string("no channel to a worker can be made: ") + std::strerror(errno));
  socket_ = out_of_the_way(ends[0]);
  const int theirs = out_of_the_way(ends[1]);
  const int log_file =
      out_of_the_way(::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int error = log_file < 0 ? errno : 0;
  if (error == 0) {
    const Spawn spawn(theirs, memory, log_file);
    error = ::posix_spawnp(&child_, arguments[0], &spawn.actions, &spawn.attributes, arguments.data(), environ);
    ::close(log_file);
  }
  ::close(theirs);
  if (error != 0) ::close(socket_);
  if (log_file < 0) throw usage_error(log.string() + " cannot be written: " + std::strerror(error));
  if (error != 0) throw Error(Exit::no_subject, argv[0] + " cannot be run: " + std::strerror(error));
  child_file_ = static_cast<int>(::syscall(SYS_pidfd_open, child_, 0));
}

Process::~Process() {
  end();
  ::close(socket_);
  if (child_file_ >= 0) ::close(child_file_);
}

// Until the socket is ready for `events`. A child that died counts as closed once nothing is left to read, even if
// something it started still holds the other end.
Process::Received Process::wait_for(short events, Clock::time_point deadline) {
  for (;;) {
    if (holds_too_much()) return Received::too_much_memory;
    pollfd files[2] = {{socket_, events, 0}, {child_file_, POLLIN, 0}};
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(std::min(deadline, looked_ + between_looks) - Clock::now());
    const int ready = ::poll(files, 2, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && Clock::now() < deadline) continue;
    if (ready == 0) return Received::timeout;
    return (files[0].revents & events) != 0 ? Received::line : Received::closed;
  }
}

// Calls may take less than the look.
bool Process::holds_too_much() {
  const auto now = Clock::now();
  if (now < looked_ + between_looks) return false;
  looked_ = now;
  return held_memory(child_).value_or(0) > most_memory_;
}

Process::Received Process::send(std::string_view line, Clock::time_point deadline) {
  while (!line.empty()) {
    const ssize_t written = ::send(socket_, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written > 0) {
      line.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      if (const Received state = wait_for(POLLOUT, deadline); state != Received::line) return state;
    } else if (errno != EINTR) {
      return Received::closed;
    }
  }
  return Received::line;
}

Process::Received Process::receive(std::string& line, Clock::time_point deadline) {
  for (;;) {
    if (const std::size_t newline = buffer_.find('\n', searched_); newline != std::string::npos) {
      line.assign(buffer_, consumed_, newline - consumed_);
      consumed_ = searched_ = newline + 1;
      if (consumed_ == buffer_.size()) {
        buffer_.clear();
        consumed_ = searched_ = 0;
      }
      return Received::line;
    }
    searched_ = buffer_.size();
    if (buffer_.size() - consumed_ > longest_line) return Received::too_long;
    if (const Received state = wait_for(POLLIN, deadline); state != Received::line) return state;
    char chunk[16384];
    const ssize_t count = ::recv(socket_, chunk, sizeof chunk, MSG_DONTWAIT);
    if (count > 0)
      buffer_.append(chunk, static_cast<std::size_t>(count));
    else if (count == 0 || (errno != EAGAIN && errno != EINTR))
      return Received::closed;
  }
}

bool Process::has_ended_by(Clock::time_point deadline) const {
  for (;;) {
    siginfo_t how{};
    if (::waitid(P_PID, static_cast<id_t>(child_), &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid != 0)
      return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Process::finish(std::chrono::milliseconds patience) {
  ::shutdown(socket_, SHUT_WR);
  if (child_ > 0) has_ended_by(Clock::now() + patience);
}

std::string Process::end() {
  if (child_ < 0) return "was not running";
  // A child that has just closed its output is about to die by itself: wait for that, so that its own signal is told.
  char byte;
  const ssize_t rest = ::recv(socket_, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  const bool closed = rest == 0 || (rest < 0 && errno == ECONNRESET);
  const bool by_itself = has_ended_by(Clock::now() + std::chrono::milliseconds(closed ? 500 : 0));
  ::kill(-child_, SIGKILL);
  int status = 0;
  rusage used{};
  while (::wait4(child_, &status, 0, &used) < 0 && errno == EINTR) {
  }
  child_ = -1;
  if (!by_itself) return closed ? "closed its output" : "was stopped";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    return "was killed by SIGKILL, perhaps by the system for want of memory: it held up to " +
           memory_text(static_cast<std::uint64_t>(used.ru_maxrss) << 10);
  if (WIFSIGNALED(status)) return "was killed by " + signal_name(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace attest
