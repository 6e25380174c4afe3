#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

class Nursery;

// The end of a process: the status that wait() gives, and the most memory that it held.
struct Ended {
  int status;
  std::uint64_t most_held;
};

// A child process that speaks in lines over its stdin and stdout. It leads a session of its own, without a terminal: a
// Ctrl-C meant for the campaign does not reach it, and it reaches no terminal. The processes it started end with it,
// wherever they have gone (descendants.hpp), and a fence keeps all of them from others (fence.hpp).
class Process {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Received : std::uint8_t { line, closed, timeout, too_long, too_much_memory };
  static constexpr int arena_file = 3, mailbox_file = 4;  // where the child finds the shared memory
  static constexpr std::size_t longest_line = std::size_t{16} << 20;

  struct Shared {
    int arena, mailbox;
  };

  // Starts argv[0], which is searched on PATH. The child's stderr is appended to `log`. A child found to hold more than
  // `most_memory` bytes with all that it has started, while it is waited for, is too_much_memory. Its environment has
  // none of attest's own settings. Throws Error(no_subject) if it does not start, and Error(usage) if the log cannot be
  // written.
  Process(const std::vector<std::string>& argv, Shared memory, const std::filesystem::path& log,
          std::uint64_t most_memory = UINT64_MAX);
  // A child that `nursery` forks. It is there once it has said so, which born() waits for; its number is the system's
  // to tell.
  Process(std::shared_ptr<Nursery> nursery, Shared memory, std::uint64_t most_memory);
  ~Process();  // kills the child and all below it, and asks for its status
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits until the child of a nursery is there; returns at once for any other.
  Received born(Clock::time_point deadline);
  // Writes `line`, which ends with a newline. `closed` if nobody reads any more.
  Received send(std::string_view line, Clock::time_point deadline);
  // The same with copies of open files.
  Received send(std::string_view line, std::span<const int> files, Clock::time_point deadline);
  // True if it has said more than it was asked for, which nobody has received yet; empty lines apart where they mean
  // something.
  bool says_more(bool but_empty_lines);
  // The next line, without its newline.
  Received receive(std::string& line, Clock::time_point deadline);
  // Tells whether it holds more than it may; looks at most once in a while.
  bool holds_too_much();
  // The same at this moment, without what it has started; and for a process whose children are counted each by itself.
  [[nodiscard]] bool holds_too_much_alone() const { return held() > most_memory_; }
  void counts_alone() noexcept { counts_alone_ = true; }
  // Bytes that it holds for itself; 0 if that is not known.
  [[nodiscard]] std::uint64_t held() const;
  // The time that it has waited for a processor that others had; 0 if that is not known.
  [[nodiscard]] Clock::duration waited_for_processor() const;
  // -1 if it is not there.
  [[nodiscard]] pid_t number() const noexcept { return child_; }
  // Lets it go on if its child has stopped it.
  void wake() const;
  // Closes its stdin.
  void hang_up();
  // Waits for it to end by itself.
  bool has_ended_by(Clock::time_point deadline) const;
  // Ends the child, if it has not ended itself, and says how it went: "was killed by SIGSEGV", "ended with status 3".
  std::string end();
  // Tells whether end() found that what it was asked may have no part in it: its nursery is gone, or it ended itself by
  // SIGALRM, as those do whose caller has not been heard of for long. Both may have been stopped for a while.
  [[nodiscard]] bool is_orphan() const noexcept { return is_orphan_; }

 private:
  void kill_all() const;
  Received receive_more(Clock::time_point deadline, pid_t* sender = nullptr);
  Received wait_for(short events, Clock::time_point deadline);

  std::shared_ptr<Nursery> nursery_;  // the nursery that forked it; null: none
  pid_t child_ = -1;
  bool is_orphan_ = false, counts_alone_ = false;
  std::uint64_t most_memory_;
  Clock::time_point next_look_{};  // at its memory
  int child_file_ = -1;            // pidfd, -1 where the system has none
  int socket_ = -1;
  std::string buffer_;  // received, from `consumed_` on not yet handed out
  std::size_t consumed_ = 0;
  std::size_t searched_ = 0;
};

}  // namespace attest
