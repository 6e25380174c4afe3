#include "subjects/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "subjects/descendants.hpp"
#include "subjects/descriptor.hpp"
#include "subjects/fence.hpp"
#include "subjects/memory.hpp"
#include "subjects/nursery.hpp"

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
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
};

// A limit of the system (setrlimit) would count what is only reserved, of which sanitizers and device libraries take
// more than any machine has, and would end a kernel by a null pointer somewhere: its memory is looked at instead.
constexpr std::chrono::milliseconds between_looks{50};
constexpr int share_of_looks = 20;                       // a look takes no more than this part of the time
constexpr std::chrono::seconds patience_after_kill{10};  // a driver may take its time to let go of a process

// Our end, and theirs.
int open_channel(int& ours) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw internal_error(std::string("no channel to a worker can be made: ") + std::strerror(errno));
  ours = out_of_the_way(ends[0]);
  return out_of_the_way(ends[1]);
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

// Waits for the child's end. nullopt if it does not end, though it was killed. A process that traces it (ptrace) is
// told first that it has: if that process has left its tree, it goes with the orphans.
std::optional<Ended> reap(pid_t child) {
  int status = 0;
  rusage used{};
  const auto end = Process::Clock::now() + patience_after_kill;
  for (auto pause = std::chrono::microseconds(50);; pause = std::min(2 * pause, std::chrono::microseconds(10'000))) {
    const pid_t ended = ::wait4(child, &status, WNOHANG, &used);
    if (ended == child) return Ended{status, static_cast<std::uint64_t>(used.ru_maxrss) << 10};
    if ((ended < 0 && errno != EINTR) || Process::Clock::now() >= end) return std::nullopt;
    if (ended == 0 && is_traced(child)) orphans::kill();
    if (ended == 0) std::this_thread::sleep_for(pause);
  }
}

// Opens the log for appending. Returns -1, with the reason in errno, for a path that is no file, such as one that the
// last worker put in its place.
int open_log(const std::filesystem::path& log) {
  const int file = ::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  struct stat status {};
  if (file < 0 || (::fstat(file, &status) == 0 && S_ISREG(status.st_mode))) return out_of_the_way(file);
  ::close(file);
  errno = EEXIST;
  return -1;
}

// The environment without attest's own settings, which may say what problems are drawn.
std::vector<char*> environment() {
  constexpr std::string_view settings = "ATTEST_PARAMS=";
  std::vector<char*> kept;
  for (char** one = environ; *one != nullptr; ++one)
    if (!std::string_view(*one).starts_with(settings)) kept.push_back(*one);
  kept.push_back(nullptr);
  return kept;
}

// 0 or what is wrong.
int start(pid_t& child, char* const* arguments, const Spawn& spawn) try {
  int error = 0;
  std::vector<char*> its_environment = environment();
  const auto lock = orphans::starting();
  std::thread([&] {  // only this thread is inside the fence, with the processes that it starts
    fence_this_thread();
    error = ::posix_spawnp(&child, arguments[0], &spawn.actions, &spawn.attributes, arguments, its_environment.data());
  })
      .join();
  if (error == 0) orphans::started(child, lock);
  return error;
} catch (const std::system_error& full) {  // no thread
  return full.code().value();
}

}  // namespace

Process::Process(const std::vector<std::string>& argv, Shared memory, const std::filesystem::path& log,
                 std::uint64_t most_memory)
    : most_memory_(most_memory) {
  const int theirs = open_channel(socket_);
  const int log_file = open_log(log);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int error = log_file < 0 ? errno : 0;
  if (error == 0) {
    const Spawn spawn(theirs, memory, log_file);
    error = start(child_, arguments.data(), spawn);
    ::close(log_file);
  }
  ::close(theirs);
  if (error != 0) ::close(socket_);
  if (log_file < 0) throw usage_error(log.string() + " cannot be written: " + std::strerror(error));
  if (error != 0) throw Error(Exit::no_subject, argv[0] + " cannot be run: " + std::strerror(error));
  child_file_ = open_process(child_);
}

Process::Process(std::shared_ptr<Nursery> nursery, Shared memory, std::uint64_t most_memory)
    : nursery_(std::move(nursery)), most_memory_(most_memory) {
  const int theirs = open_channel(socket_), wanted = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_PASSCRED, &wanted, sizeof wanted);  // before it says anything
  nursery_->bear(theirs, memory);                                          // if that fails, the channel is closed
  ::close(theirs);
}

// Its number comes with the first thing that it says, from the system. A privileged process may lie there, too; but not
// about whose child the one of that number is, so that nobody else's is ever killed.
Process::Received Process::born(Clock::time_point deadline) {
  if (!nursery_ || child_ > 0) return Received::line;
  pid_t sender = 0;
  const Received said = receive_more(deadline, &sender);
  const int not_wanted = 0;
  ::setsockopt(socket_, SOL_SOCKET, SO_PASSCRED, &not_wanted, sizeof not_wanted);
  if (said != Received::line) return said;
  std::string line;
  if (const Received state = receive(line, deadline); state != Received::line) return state;
  if (!Nursery::says_born(line)) return Received::closed;
  child_file_ = open_child(sender, nursery_->number());
  if (child_file_ < 0) return Received::closed;
  child_ = sender;
  return Received::line;
}

Process::~Process() {
  if (nursery_ && child_ > 0) {
    kill_all();
    nursery_->bury(child_);
  } else {
    end();
  }
  ::close(socket_);
  if (child_file_ >= 0) ::close(child_file_);
}

// Waits until the socket is ready for `events`. A child that died counts as closed once nothing is left to read, even
// if something it started still holds the other end.
Process::Received Process::wait_for(short events, Clock::time_point deadline) {
  for (;;) {
    if (holds_too_much()) return Received::too_much_memory;
    pollfd files[2] = {{socket_, events, 0}, {child_file_, POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(deadline, next_look_) - Clock::now());
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
  if (now < next_look_) return false;
  std::uint64_t held = 0;
  if (counts_alone_)
    held = this->held();
  else if (child_ > 0)
    held = held_with_descendants(child_, most_memory_) + orphans::held(most_memory_);
  const auto end = Clock::now();
  next_look_ = std::max(now + between_looks, end + share_of_looks * (end - now));
  if (held > most_memory_) orphans::kill();  // nobody knows whose they are, and they may be what holds it
  return held > most_memory_ || (nursery_ && nursery_->holds_too_much());
}

std::uint64_t Process::held() const { return child_ > 0 ? held_memory(child_).value_or(0) : 0; }

Process::Clock::duration Process::waited_for_processor() const {
  std::ifstream file(fmt::format("/proc/{}/schedstat", child_));
  std::uint64_t ran = 0, waited = 0;  // nanoseconds
  return file >> ran >> waited ? std::chrono::nanoseconds(waited) : std::chrono::nanoseconds(0);
}

void Process::wake() const {
  if (child_ > 0 && !nursery_) ::kill(child_, SIGCONT);  // ours until we ask for its status
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
    if (const Received state = receive_more(deadline); state != Received::line) return state;
  }
}

// Some bytes. `sender`: the process that the system says wrote them.
Process::Received Process::receive_more(Clock::time_point deadline, pid_t* sender) {
  for (;;) {
    if (const Received state = wait_for(POLLIN, deadline); state != Received::line) return state;
    char chunk[16384];
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(ucred))];
    iovec text{chunk, sizeof chunk};
    msghdr message{};
    message.msg_iov = &text;
    message.msg_iovlen = 1;
    message.msg_control = sender != nullptr ? room : nullptr;
    message.msg_controllen = sender != nullptr ? sizeof room : 0;
    const ssize_t count = ::recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return Received::closed;
    buffer_.append(chunk, static_cast<std::size_t>(count));
    if (sender == nullptr) return Received::line;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head))
      if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS) {
        ucred who{};
        std::memcpy(&who, CMSG_DATA(head), sizeof who);
        *sender = who.pid;
      }
    return Received::line;
  }
}

bool Process::says_more(bool but_empty_lines) {
  char chunk[4096];
  for (ssize_t count;
       buffer_.size() - consumed_ < sizeof chunk && (count = ::recv(socket_, chunk, sizeof chunk, MSG_DONTWAIT)) > 0;)
    buffer_.append(chunk, static_cast<std::size_t>(count));
  if (but_empty_lines) {
    const std::size_t said = buffer_.find_first_not_of('\n', consumed_);
    if (said != std::string::npos) return true;
    buffer_.clear();
    consumed_ = searched_ = 0;
  }
  return consumed_ < buffer_.size();
}

Process::Received Process::send(std::string_view line, std::span<const int> files, Clock::time_point deadline) {
  std::vector<char> room(CMSG_SPACE(files.size_bytes()));
  iovec text{const_cast<char*>(line.data()), line.size()};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(files.size_bytes());
  std::memcpy(CMSG_DATA(head), files.data(), files.size_bytes());
  for (;;) {
    const ssize_t written = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written > 0) return send(line.substr(static_cast<std::size_t>(written)), deadline);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return Received::closed;
    if (const Received state = wait_for(POLLOUT, deadline); state != Received::line) return state;
  }
}

bool Process::has_ended_by(Clock::time_point deadline) const {
  if (child_ < 0) return true;
  if (nursery_) {
    pollfd file{child_file_, POLLIN, 0};
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      const int ready = ::poll(&file, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
      if (ready >= 0 || errno != EINTR) return ready > 0;
    }
  }
  for (;;) {
    siginfo_t how{};
    if (::waitid(P_PID, static_cast<id_t>(child_), &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid != 0)
      return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Process::kill_all() const { kill_with_descendants(child_, child_file_); }

void Process::hang_up() { ::shutdown(socket_, SHUT_WR); }

std::string Process::end() {
  if (child_ < 0) return "was not running";
  // A child that has just closed its output is about to die by itself: wait for that, so that its own signal is told.
  char byte;
  const ssize_t rest = ::recv(socket_, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  const bool closed = rest == 0 || (rest < 0 && errno == ECONNRESET);
  const bool by_itself = has_ended_by(Clock::now() + std::chrono::milliseconds(closed ? 500 : 0));
  kill_all();
  if (nursery_ && !by_itself)
    has_ended_by(Clock::now() + patience_after_kill);  // not there, where others wait for theirs
  const std::optional<Ended> ended = nursery_ ? nursery_->reap(child_) : reap(child_);
  if (!nursery_) orphans::ended(child_);
  child_ = -1;
  is_orphan_ = nursery_ && !ended;
  if (!by_itself) return closed ? "closed its output" : "was stopped";
  if (!ended)
    return nursery_ ? "ended, and so did the process that it was forked from" : "ended, and nobody can say how";
  const int status = ended->status;
  is_orphan_ = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    return "was killed by SIGKILL, perhaps by the system for want of memory: it held up to " +
           memory_text(ended->most_held);
  if (WIFSIGNALED(status)) return "was killed by " + signal_name(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace attest
