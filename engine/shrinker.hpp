#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/subject.hpp"
#include "engine/check.hpp"
#include "engine/corpus.hpp"
#include "engine/instance.hpp"
#include "engine/ops.hpp"
#include "engine/shrink/shrink.hpp"
#include "engine/timed.hpp"

namespace attest::engine {

// A failing case that is to be shrunk.
struct ShrinkTask {
  Problem problem;
  CaseOutcome outcome;
  std::uint64_t number = 0;  // the case's
  double seconds = 0;        // on the campaign's clock, when it failed
  std::uint64_t cases = 0;   // drawn until then
  std::string signature;
  std::uint64_t rank = 0;  // order: the lowest of those that wait is begun first
};

// The result of a task.
struct ShrinkResult {
  ShrinkTask task;
  Entry entry;
  std::vector<std::string> shows;  // keys of all laws of the case that fail on the reproducer
  double seconds = 0;              // spent, without waiting for leave
  bool unfinished = false;  // time was over before it was known what it shrinks to: the entry is as good as was come to
  bool unasked = false;     // and no sound instance was seen to show it: it stands for nothing
  std::exception_ptr error;  // attest failed, or the subject could not be started
};

// A better problem on the way.
struct ShrinkProgress {
  std::uint64_t number = 0;
  ShrinkStep step;
};

// Shrinks one. `bench` gives the thread's instances, which are started the first time. Each call of the subject waits
// while its thread has no leave to run; `stop` asks to end with what there is.
using ShrinkWork =
    std::function<ShrinkResult(const std::function<Bench()>& bench, ShrinkTask task, const std::atomic<bool>& stop,
                               const std::function<void(const ShrinkStep&)>& accepted)>;

// Shrinks beside a campaign: tasks are begun by rank, those of one rank in the order in which they came, and handed
// back in the order in which they were begun, on threads of its own with instances of the
// subject of their own. A thread runs only while it is given leave, and waits between two calls otherwise.
class Shrinker {
 public:
  Shrinker(const SubjectFactory& subject, const SubjectFactory* peer, ShrinkWork work, std::size_t workers,
           bool compares = false, std::shared_ptr<Settled> settled = nullptr, Clock clock = machine_seconds);
  ~Shrinker();
  Shrinker(const Shrinker&) = delete;
  Shrinker& operator=(const Shrinker&) = delete;

  void submit(ShrinkTask task);
  // Tells whether a task waits, is in work or was not handed back yet.
  [[nodiscard]] bool busy() const;
  // Lets so many threads run from now on; 0 holds all of them before their next call.
  void allow(std::size_t workers);
  // Tells whether threads that shrink what ends instances have to wait, whoever may run.
  void hold_deaths(bool hold);
  // Lets one thread run for about so long, and holds it again. Returns the seconds that took, until it was held.
  double run_for(double seconds);
  // Waits until something was finished, or so long.
  void wait(double seconds);
  // Ends what is in work after its next call; waiting tasks stay untouched.
  void stop();

  // Finished tasks of which all that were begun earlier are finished too.
  std::vector<ShrinkResult> take_results();
  std::vector<ShrinkProgress> take_progress();
  // Takes the tasks out that were not begun and for which `wanted` holds.
  std::vector<ShrinkTask> take_waiting(const std::function<bool(const ShrinkTask&)>& wanted);

 private:
  class Gated;
  void work(std::size_t worker);
  void pass_gate(std::size_t worker, double& waited);
  [[nodiscard]] bool has_leave(std::size_t worker) const {
    return worker < allowed_ && clock_() < until_ && !(deaths_held_ && deadly_[worker]);
  }

  const SubjectFactory& subject_;
  const SubjectFactory* peer_;
  const ShrinkWork work_;
  const std::size_t workers_;
  const bool compares_;
  const std::shared_ptr<Settled> settled_;
  const Clock clock_;

  mutable std::mutex guard_;
  std::condition_variable changed_;
  std::size_t allowed_ = 0, running_ = 0;                   // threads that may run; threads between two waits
  double until_ = std::numeric_limits<double>::infinity();  // by the clock, how long they may
  bool ending_ = false, deaths_held_ = false;
  std::vector<bool> deadly_;  // by thread: whether what it has in work ends instances
  std::atomic<bool> stop_{false};
  std::deque<ShrinkTask> waiting_;
  std::uint64_t begun_ = 0, handed_back_ = 0;
  std::map<std::uint64_t, ShrinkResult> finished_;
  std::vector<ShrinkProgress> progress_;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace attest::engine
