#include "subjects/worker_source.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "core/error.hpp"

namespace attest {
namespace {

// A library that opens a device takes hundreds of milliseconds: while lives are short, one after the other, it takes a
// few, each of which holds what a device gives a process. At most one for each processor, and all within what one may
// hold when it is asked.
constexpr std::size_t fewest_most_kept_ready = 4, most_kept_ready = 8;

std::size_t most_ready(std::uint64_t held_by_one, std::uint64_t memory) {
  const std::size_t processors =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), fewest_most_kept_ready, most_kept_ready);
  const std::uint64_t fit = memory / std::max<std::uint64_t>(held_by_one, 1);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(fit, 1, processors));
}
constexpr std::chrono::milliseconds in_time{5};

}  // namespace

WorkerSource::WorkerSource(const WorkerCommand& command, const std::string& wanted)
    : command_(command), may_be_nursery_(command.ways.nursery && Nursery::is_possible()) {
  const auto start = Process::Clock::now();
  ready_.push_back(anew(wanted));
  load_time_ = std::chrono::ceil<std::chrono::milliseconds>(Process::Clock::now() - start);
  offers_ = ready_.front()->offers();
}

WorkerSource::~WorkerSource() {
  for (const auto& worker : ready_)
    if (worker->usable()) worker->leave();
}

void WorkerSource::see_off(std::unique_ptr<WorkerConnection> worker) {
  worker->leave();
  has_leaving();
  const std::lock_guard guard(lock_);
  leaving_.push_back(std::move(worker));
}

bool WorkerSource::has_leaving() {
  std::vector<std::unique_ptr<WorkerConnection>> gone;  // ended without the lock
  const std::lock_guard guard(lock_);
  const auto left =
      std::partition(leaving_.begin(), leaving_.end(), [](const auto& worker) { return !worker->has_left(); });
  gone.assign(std::move_iterator(left), std::move_iterator(leaving_.end()));
  leaving_.erase(left, leaving_.end());
  return !leaving_.empty();
}

std::chrono::milliseconds WorkerSource::warm_up() const noexcept {
  constexpr int loads = 10, most_unanswered = 3;
  const std::chrono::milliseconds slowest(slowest_first_ms_.load());
  if (slowest.count() < 0 && unanswered_ >= most_unanswered) return {};
  return std::min(slowest.count() < 0 ? loads * load_time_ : busy * slowest, command_.limits.once);
}

void WorkerSource::was_warmed_up_in(std::chrono::nanoseconds took) noexcept {
  const std::int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(took).count();
  std::int64_t slowest = slowest_first_ms_.load();
  while (slowest < ms && !slowest_first_ms_.compare_exchange_weak(slowest, ms)) {
  }
}

std::unique_ptr<WorkerConnection> WorkerSource::first(const std::string& subject) {
  std::unique_ptr<WorkerConnection> worker = take_ready();
  return worker ? std::move(worker) : start(subject);
}

std::unique_ptr<WorkerConnection> WorkerSource::next(const std::string& subject) {
  std::unique_ptr<WorkerConnection> worker = take_ready();
  if (!worker) worker = start(subject);
  keep_ready(subject);
  return worker;
}

std::unique_ptr<WorkerConnection> WorkerSource::take_ready() {
  std::unique_lock guard(lock_);
  if (nursery_ && nursery_->is_gone()) {
    nursery_.reset();
    ready_.clear();
  }
  if (ready_.empty()) return nullptr;
  std::unique_ptr<WorkerConnection> worker = std::move(ready_.front());
  ready_.pop_front();
  guard.unlock();
  if (worker->usable()) return worker;
  const auto start = Process::Clock::now();
  try {
    worker->await_description();
  } catch (const Error&) {
    return nullptr;  // it ended while it waited, or was long in loading
  }
  guard.lock();
  if (nursery_ && Process::Clock::now() - start > in_time &&
      kept_ready_ < most_ready(worker->held(), command_.limits.memory))
    ++kept_ready_;
  return worker;
}

std::unique_ptr<WorkerConnection> WorkerSource::start(const std::string& subject) {
  if (std::shared_ptr<Nursery> parent = nursery()) try {
      auto worker = std::make_unique<WorkerConnection>(command_, subject, parent);
      worker->await_description();
      return worker;
    } catch (const Error&) {  // it is gone, perhaps: another takes its place
      const std::lock_guard guard(lock_);
      if (nursery_ == parent) nursery_.reset();
    }
  return anew(subject);
}

std::unique_ptr<WorkerConnection> WorkerSource::anew(const std::string& subject) {
  auto worker = std::make_unique<WorkerConnection>(command_, subject, nullptr, may_be_nursery_);
  worker->await_description();
  std::unique_ptr<Process> process = worker->take_nursery();
  if (!process) {
    const std::lock_guard guard(lock_);
    may_be_nursery_ = false;
    return worker;
  }
  auto nursery = std::make_shared<Nursery>(std::move(process));
  worker = std::make_unique<WorkerConnection>(command_, subject, nursery);
  worker->await_description();
  const std::lock_guard guard(lock_);
  nursery_ = std::move(nursery);
  return worker;
}

std::shared_ptr<Nursery> WorkerSource::nursery() {
  const std::lock_guard guard(lock_);
  return nursery_;
}

void WorkerSource::keep_ready(const std::string& subject) try {
  const std::lock_guard guard(lock_);
  if (!command_.ways.nursery || (may_be_nursery_ && !nursery_)) return;
  while (ready_.size() < kept_ready_) ready_.push_back(std::make_unique<WorkerConnection>(command_, subject, nursery_));
} catch (const Error&) {  // whoever needs one will be told
}

}  // namespace attest
