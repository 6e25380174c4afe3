#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/case_table.hpp"
#include "engine/check.hpp"
#include "engine/ops.hpp"
#include "engine/stream.hpp"

namespace attest::engine {

// One case of a campaign, and what became of it.
struct CaseRecord {
  std::uint64_t number = 0;
  bool begun = false;  // a call was made of it, or tried
  bool done = false;   // asked to its end
  Problem problem;
  CaseOutcome outcome;
  CaseRow row;
  std::uint64_t rejected = 0, left_out = 0;
  double seconds = 0;   // the time it took
  double finished = 0;  // seconds since the campaign's start
  std::exception_ptr error;
  // Kept by Dispatch: the next case of its plan, for the thread that asked this one; whether it came back.
  CaseRecord* rest = nullptr;
  bool back = false;
};

// Hands the cases of a stretch out to threads in order of their numbers, and gives them back in that order to the one
// that counts them: nobody waits for a case that takes long but at the end of the stretch. The cases of one plan go to
// one thread, whose instance has it, until one of them ends that instance: a plan whose every call ends one would keep
// a single thread for all of these deaths.
class Dispatch {
 public:
  // The growth of a stretch beyond its end: the next end, and the seconds for which a thread without a case waits
  // before that for the cases of others.
  struct Growth {
    std::function<std::uint64_t(std::uint64_t end)> next_end;
    double patience;
  };

  // The cases of a shard from number `first` on and before `end`; each plan is kept for `repeat`.
  Dispatch(std::uint64_t first, std::uint64_t end, std::uint64_t repeat, const Shard& shard,
           std::optional<Growth> growth = std::nullopt)
      : shard_(shard), repeat_(repeat), growth_(std::move(growth)), next_(shard.next(first, repeat)), end_(end) {}

  // A case that was asked; `ended`: it ended its instance. Returns the next case of its plan, for the same thread;
  // nullptr if that has none any more.
  CaseRecord* give_back(CaseRecord* asked, bool ended);
  // A case of another plan, or one that was left of one; nullptr if there is none: for good, if it may `wait` for what
  // others leave.
  CaseRecord* next(bool wait);
  // Tells whether all that was handed out is back, and nothing more will be.
  [[nodiscard]] bool is_over() const;
  // Hands out nothing any more; and nothing until go_on().
  void stop();
  void hold();
  void go_on();

  // The case of lowest number that was not taken yet, once it is back.
  std::optional<CaseRecord> take();
  // Waits until a case comes back, or so many seconds; then the stretch grows, if it may and has nothing more to hand
  // out.
  void wait(double seconds);

 private:
  static constexpr std::size_t most_kept = 8192;  // cases that were not taken
  [[nodiscard]] bool has_more() const { return !stopped_ && (!left_.empty() || next_ < end_); }
  [[nodiscard]] bool may_grow() const { return growth_ && !stopped_ && !has_more() && out_ > 0; }
  void grow();

  const Shard shard_;
  const std::uint64_t repeat_;
  const std::optional<Growth> growth_;
  mutable std::mutex guard_;
  std::condition_variable changed_;
  std::uint64_t next_, end_;
  std::size_t out_ = 0;
  std::deque<CaseRecord> cases_;  // pointers to its elements are kept
  std::deque<CaseRecord*> left_;  // cases of plans that no instance has
  bool stopped_ = false, held_ = false;
};

}  // namespace attest::engine
