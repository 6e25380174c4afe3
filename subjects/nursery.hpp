#pragma once
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "subjects/process.hpp"

namespace attest {

// A worker that has loaded its subjects, and forks one that serves them for each life (docs/worker.md, "The nursery").
// For any number of threads.
class Nursery {
 public:
  explicit Nursery(std::unique_ptr<Process> process) : process_(std::move(process)) { process_->counts_alone(); }

  // Tells whether children can be watched here.
  static bool is_possible();

  // True if that is the line that a child says first.
  static bool says_born(std::string_view line);

  [[nodiscard]] pid_t number() const noexcept { return process_->number(); }

  // Tells whether it has ended, or is about to: its children end with it.
  [[nodiscard]] bool is_gone() const { return gone_ || process_->has_ended_by({}); }

  // True if it holds more than a process may, its children apart.
  [[nodiscard]] bool holds_too_much() const { return process_->holds_too_much_alone(); }

  // Asks for a child that serves `socket`, and does not wait for it.
  void bear(int socket, Process::Shared memory);
  // The end of a child that has ended; nullopt if the nursery is gone.
  std::optional<Ended> reap(pid_t child);
  // The same of a child that was killed, where nobody wants to know.
  void bury(pid_t child);

 private:
  bool tell(const std::string& message);

  std::mutex lock_;
  std::unique_ptr<Process> process_;
  std::atomic<bool> gone_ = false;
};

}  // namespace attest
