#include "engine/shrinker.hpp"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "engine/passed_on.hpp"

namespace attest::engine {
namespace {
constexpr double between_looks = 0.02;  // seconds, at a clock that need not be the machine's
std::chrono::duration<double> of(double seconds) { return std::chrono::duration<double>(std::max(0.0, seconds)); }
}  // namespace

// A subject whose calls wait for leave.
class Shrinker::Gated final : public PassedOn {
 public:
  Gated(Shrinker& shrinker, std::size_t worker, double& waited, std::unique_ptr<Subject> inner)
      : PassedOn(*inner), shrinker_(shrinker), worker_(worker), waited_(waited), owned_(std::move(inner)) {}
  std::vector<CallResult> run(std::span<const Call> calls) override {
    shrinker_.pass_gate(worker_, waited_);
    return PassedOn::run(calls);
  }
  bool renew() override {
    shrinker_.pass_gate(worker_, waited_);
    return PassedOn::renew();
  }

 private:
  Shrinker& shrinker_;
  std::size_t worker_;
  double& waited_;
  std::unique_ptr<Subject> owned_;
};

Shrinker::Shrinker(const SubjectFactory& subject, const SubjectFactory* peer, ShrinkWork work, std::size_t workers,
                   bool compares, std::shared_ptr<Settled> settled, Clock clock)
    : subject_(subject),
      peer_(peer),
      work_(std::move(work)),
      workers_(std::max<std::size_t>(workers, 1)),
      compares_(compares),
      settled_(std::move(settled)),
      clock_(std::move(clock)),
      deadly_(workers_) {}

Shrinker::~Shrinker() {
  stop();
  {
    const std::lock_guard lock(guard_);
    ending_ = true;
    waiting_.clear();
    allowed_ = workers_;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Shrinker::submit(ShrinkTask task) {
  const std::lock_guard lock(guard_);
  const auto place = std::ranges::upper_bound(waiting_, task.rank, {}, &ShrinkTask::rank);
  waiting_.insert(place, std::move(task));
  changed_.notify_all();
}

bool Shrinker::busy() const {
  const std::lock_guard lock(guard_);
  return !waiting_.empty() || handed_back_ < begun_;
}

void Shrinker::allow(std::size_t workers) {
  const std::lock_guard lock(guard_);
  allowed_ = std::min(workers, workers_);
  while (threads_.size() < allowed_ && !waiting_.empty())
    threads_.emplace_back([this, worker = threads_.size()] { work(worker); });
  changed_.notify_all();
}

void Shrinker::hold_deaths(bool hold) {
  const std::lock_guard lock(guard_);
  deaths_held_ = hold;
  changed_.notify_all();
}

double Shrinker::run_for(double seconds) {
  const double start = clock_();
  {
    const std::lock_guard lock(guard_);
    until_ = start + seconds;
  }
  allow(1);
  std::unique_lock lock(guard_);
  // Waits until the time is over or nothing is left to do.
  const auto is_over = [&] { return (waiting_.empty() && running_ == 0) || clock_() >= until_; };
  while (!is_over()) changed_.wait_for(lock, of(std::min(between_looks, until_ - clock_())));
  allowed_ = 0;
  changed_.wait(lock, [&] { return running_ == 0; });
  until_ = std::numeric_limits<double>::infinity();
  return clock_() - start;
}

void Shrinker::wait(double seconds) {
  std::unique_lock lock(guard_);
  changed_.wait_for(lock, of(seconds),
                    [&] { return finished_.contains(handed_back_) || (waiting_.empty() && handed_back_ == begun_); });
}

void Shrinker::stop() {
  const std::lock_guard lock(guard_);
  stop_ = true;
  changed_.notify_all();
}

std::vector<ShrinkResult> Shrinker::take_results() {
  const std::lock_guard lock(guard_);
  std::vector<ShrinkResult> results;
  for (auto next = finished_.find(handed_back_); next != finished_.end(); next = finished_.find(handed_back_)) {
    results.push_back(std::move(next->second));
    finished_.erase(next);
    ++handed_back_;
  }
  return results;
}

std::vector<ShrinkProgress> Shrinker::take_progress() {
  const std::lock_guard lock(guard_);
  return std::exchange(progress_, {});
}

std::vector<ShrinkTask> Shrinker::take_waiting(const std::function<bool(const ShrinkTask&)>& wanted) {
  const std::lock_guard lock(guard_);
  const auto taken =
      std::stable_partition(waiting_.begin(), waiting_.end(), [&](const ShrinkTask& task) { return !wanted(task); });
  std::vector<ShrinkTask> tasks(std::make_move_iterator(taken), std::make_move_iterator(waiting_.end()));
  waiting_.erase(taken, waiting_.end());
  return tasks;
}

// A thread that waits here does not count as running. Adds the seconds that it waited.
void Shrinker::pass_gate(std::size_t worker, double& waited) {
  std::unique_lock lock(guard_);
  const auto may_run = [&] { return has_leave(worker) || stop_ || ending_; };
  if (may_run()) return;
  const double start = clock_();
  --running_;
  changed_.notify_all();
  changed_.wait(lock, may_run);
  ++running_;
  waited += clock_() - start;
}

void Shrinker::work(std::size_t worker) {
  omp_set_num_threads(1);  // threads that a kernel opens in here would come on top of the campaign's own
  double waited = 0;
  std::unique_ptr<Subject> subject, peer;
  Instance instance(settled_);
  std::unique_lock lock(guard_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || (!stop_ && has_leave(worker) && !waiting_.empty()); });
    if (ending_) return;
    ShrinkTask task = std::move(waiting_.front());
    const std::uint64_t order = begun_++;
    waiting_.pop_front();
    const LawVerdict* const finding = task.outcome.finding();
    deadly_[worker] = finding != nullptr && finding->died();
    ++running_;
    lock.unlock();
    ShrinkResult result;
    const double start = clock_();
    waited = 0;
    const auto bench = [&]() -> Bench {
      if (!subject) subject = std::make_unique<Gated>(*this, worker, waited, subject_.open());
      if (!peer && peer_) peer = peer_->open();
      return {*subject, peer.get(), &instance, nullptr, compares_};
    };
    try {
      const std::uint64_t number = task.number;
      result = work_(bench, std::move(task), stop_, [&](const ShrinkStep& step) {
        const std::lock_guard inner(guard_);
        progress_.push_back({number, step});
      });
    } catch (...) {
      result.error = std::current_exception();
    }
    result.seconds = clock_() - start - waited;
    lock.lock();
    finished_.emplace(order, std::move(result));
    deadly_[worker] = false;
    --running_;
    changed_.notify_all();
  }
}

}  // namespace attest::engine
