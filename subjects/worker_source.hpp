#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "subjects/connection.hpp"
#include "subjects/nursery.hpp"
#include "subjects/worker.hpp"

namespace attest {

// The source of a subject's workers: children of a nursery, where it can be one, else processes started anew. For any
// number of threads.
class WorkerSource {
 public:
  // Starts the first and waits for its description. Throws Error(no_subject) if it does not start.
  WorkerSource(const WorkerCommand& command, const std::string& wanted);
  // Gives the workers that are to end one moment, all of them together.
  ~WorkerSource();
  WorkerSource(const WorkerSource&) = delete;
  WorkerSource& operator=(const WorkerSource&) = delete;

  [[nodiscard]] const std::vector<Offer>& offers() const noexcept { return offers_; }

  // One that has described itself, for a first life or after another has ended: from then on the next is kept ready,
  // where the command says so, and, of a nursery's, as many as it takes for one to be ready in time. Throws
  // Error(no_subject) if it does not start.
  std::unique_ptr<WorkerConnection> first(const std::string& subject);
  std::unique_ptr<WorkerConnection> next(const std::string& subject);

  // Tells one that nobody asks it any more. It has a moment to end by itself, for which nobody waits here: a driver may
  // take long to let go of a process.
  void see_off(std::unique_ptr<WorkerConnection> worker);
  // Forgets those that have ended since, or have had their moment. False if none is left.
  bool has_leaving();

  // The time on a busy machine, as a multiple of that on an idle one.
  static constexpr int busy = 4;
  // The time that the first call of a process may take beyond the limit of any: with heavy libraries it brings up what
  // loading them does not. It is judged by the time that loading took; once a first call was answered, by the time of
  // those that were; none where three were not, and no other was.
  [[nodiscard]] std::chrono::milliseconds warm_up() const noexcept;
  void was_warmed_up_in(std::chrono::nanoseconds took) noexcept;
  void did_not_warm_up() noexcept { ++unanswered_; }

 private:
  // The next of those kept ready, if there is one that starts.
  std::unique_ptr<WorkerConnection> take_ready();
  std::unique_ptr<WorkerConnection> start(const std::string& subject);
  std::unique_ptr<WorkerConnection> anew(const std::string& subject);
  std::shared_ptr<Nursery> nursery();
  void keep_ready(const std::string& subject);

  const WorkerCommand command_;
  std::vector<Offer> offers_;
  std::chrono::milliseconds load_time_{};
  std::atomic<std::int64_t> slowest_first_ms_ = -1;  // none yet
  std::atomic<int> unanswered_ = 0;                  // first calls that passed their limit
  std::mutex lock_;
  bool may_be_nursery_;
  std::shared_ptr<Nursery> nursery_;
  std::deque<std::unique_ptr<WorkerConnection>> ready_;  // may not have described themselves yet
  std::size_t kept_ready_ = 1;
  std::vector<std::unique_ptr<WorkerConnection>> leaving_;
};

}  // namespace attest
