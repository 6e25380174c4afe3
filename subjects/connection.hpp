#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/subject.hpp"
#include "subjects/arena.hpp"
#include "subjects/describe.hpp"
#include "subjects/mailbox.hpp"
#include "subjects/message.hpp"
#include "subjects/process.hpp"
#include "subjects/reply.hpp"
#include "subjects/worker.hpp"

namespace attest {

// The time that a worker may take for a call, and for the first one that its process is asked, which does much that is
// done once.
struct Patience {
  std::chrono::milliseconds call, first_call;
};

// One running worker and the memory shared with it.
class WorkerConnection {
 public:
  // Starts it and asks it to describe itself, without waiting; `subject` will be wanted, empty if that is not known
  // yet. It is forked by `nursery`, or started by itself if there is none: then `may_be_nursery` asks it to become one.
  WorkerConnection(WorkerCommand command, const std::string& subject, std::shared_ptr<Nursery> nursery = nullptr,
                   bool may_be_nursery = false);

  ~WorkerConnection();  // lets a worker in good order end by itself, for a moment
  WorkerConnection(const WorkerConnection&) = delete;
  WorkerConnection& operator=(const WorkerConnection&) = delete;

  // Waits until it has described itself, before anything else is asked of it. Throws Error(no_subject) if it does not,
  // or not in time.
  void await_description();
  // The process, if it is a nursery now and no worker; else null.
  std::unique_ptr<Process> take_nursery();
  // Tells it that nobody asks any more, and does not wait for its end.
  void leave();
  // Tells whether it has ended, or has had the time to do so by itself.
  [[nodiscard]] bool has_left() const;

  [[nodiscard]] const std::vector<Offer>& offers() const noexcept { return offers_; }

  [[nodiscard]] bool usable() const noexcept { return usable_; }

  // Tells whether an unusable connection may have ended for no reason of the call's (Process::is_orphan).
  [[nodiscard]] bool is_orphan() const noexcept { return process_->is_orphan(); }

  // Bytes that it holds for itself now; 0 if that is not known.
  [[nodiscard]] std::uint64_t held() const { return process_->held(); }

  // Tells whether nothing was asked of this process yet.
  [[nodiscard]] bool is_fresh() const noexcept { return trip_ == 0; }

  // Runs calls of one subject in one trip, in order. Fewer results than calls: the last one is a crash, a timeout or an
  // answer that is none, and this connection is no longer usable.
  std::vector<CallResult> run(const std::string& subject, std::span<const Call> calls, const Patience& patience);

  // Python source that makes the call without attest, from a file in the folder `beside`, and leaves the answer in
  // `got`; empty if the worker knows none. Throws Error(no_subject) if it does not say.
  std::string script(const std::string& subject, const Call& call, const std::string& beside);

  // ---- messages that are no calls of a subject
  // Sends a request, which is a line, and waits for the worker's answer, which names `id` and is line() once the result
  // is done. After a crash, a timeout or nonsense this connection is no longer usable.
  CallResult exchange(const std::string& request, std::int64_t id, std::chrono::milliseconds limit);
  // Sends a request that has no answer.
  void tell(const std::string& request);
  [[nodiscard]] const std::string& line() const noexcept { return line_; }
  [[nodiscard]] Arena& arena() noexcept { return arena_; }
  // Gives the connection up after an answer whose end attest could not follow.
  void give_up() noexcept { usable_ = false; }

 private:
  // Tells whether a tensor is in several parts.
  bool copy_in(std::span<const Call> calls);
  void copy_out(const Call& call, std::size_t index);
  // Hands a trip over; `line` once it is on its way. In the mailbox, if the worker looks there and it fits; else by the
  // pipe.
  Process::Received ask(const std::string& subject, std::span<const Call> calls, std::chrono::milliseconds limit);
  bool ask_by_mailbox(const std::string& subject, std::span<const Call> calls, std::chrono::milliseconds limit,
                      Process::Received& state);
  CallResult receive(std::size_t index, Process::Clock::time_point deadline);
  // Waits until the mailbox answers call `index`, a line comes, or the worker fails.
  Process::Received await_answer(std::size_t index, Process::Clock::time_point deadline);
  Process::Received receive_line(Process::Clock::time_point deadline);
  CallResult result_of(RunReply reply);
  // An end that is seen past the deadline is a time-out: attest was stopped in the meantime, and its worker took itself
  // for forgotten.
  CallResult lost(Process::Received how, std::chrono::milliseconds limit, Process::Clock::time_point deadline);
  [[nodiscard]] std::chrono::milliseconds longest_load() const;
  Process::Received while_it_loads(const std::function<Process::Received(Process::Clock::time_point)>& wait);
  [[nodiscard]] std::string more_in_log() const;
  [[nodiscard]] std::string out_of_memory() const;

  WorkerCommand command_;
  Arena arena_;
  Mailbox mailbox_;
  std::unique_ptr<Process> process_;
  Process::Clock::time_point begun_at_, left_by_{};  // the latter a limit, once it has been left
  std::vector<Offer> offers_;
  std::vector<TensorOffsets> offsets_;                // one entry a call, for its tensors
  std::vector<std::span<std::byte>> changed_inputs_;  // by the calls of this trip so far
  std::string line_;
  std::int64_t trip_ = 0;
  bool may_be_nursery_, is_nursery_ = false;
  bool has_mailbox_ = false;      // the worker looks there
  bool trip_in_mailbox_ = false;  // the trip under way was asked there
  Process::Received begun_{};     // the result of the first message
  bool usable_ = false;           // once it has described itself, and while the two ends agree where they are
};

}  // namespace attest
