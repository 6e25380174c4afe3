#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/campaign/reproducers.hpp"
#include "engine/campaign/state.hpp"
#include "engine/shrinker.hpp"

namespace attest::engine {

// Decides which failures of a campaign are shrunk, in which order and for how long. For the thread that counts.
class Shrinking {
 public:
  // All must outlive it. `settled`: as an instance has it.
  Shrinking(CampaignState& state, Reproducers& reproducers, const SubjectFactory& subject, const SubjectFactory* peer,
            std::shared_ptr<Settled> settled);

  [[nodiscard]] const ShrinkLimits& limits() const noexcept { return limits_; }

  // Queues a task. Under a time limit the first wrong numbers of each law are shrunk first, then the first error of
  // each cause, and deaths after some of each; deaths and errors that a finding stands for already wait until drawing
  // has ended. Tasks wait while the subject returns nothing.
  void submit(ShrinkTask task);
  // Begins what waited for the subject to return something.
  void release();
  // Called after rules or findings changed.
  void order();

  // One job of several shrinks while the others draw; the only one shrinks for as long as it drew: these seconds.
  void beside(double seconds);
  [[nodiscard]] bool is_busy() const { return shrinker_.busy(); }
  // Shrinks all that waits, while nothing is drawn.
  void all();
  // Shrinks what is left once drawing has ended, for as long as a time limit permits; `meanwhile` is called now and
  // then. What is not shrunk by then is told as it was seen.
  void end(const std::function<void()>& meanwhile);
  // Ends what is in work, and leaves out what waits.
  void stop() { shrinker_.stop(); }

 private:
  // The text that a failure is counted under, and whether a finding stands for it.
  struct Cause {
    std::string text;
    bool stands;
  };
  [[nodiscard]] Cause cause_of(const ShrinkTask& task) const;
  void take_results();
  std::vector<ShrinkTask> stopped();
  void end_in_silence();
  void tell_unshrunk(std::vector<ShrinkTask> waiting);

  // On threads of the shrinker.
  [[nodiscard]] ShrinkResult shrunk(const std::function<Bench()>& bench, ShrinkTask task, const std::atomic<bool>& stop,
                                    const std::function<void(const ShrinkStep&)>& accepted) const;
  [[nodiscard]] ShrinkResult shrunk_in_time(Bench bench, const ShrinkTask& task, const std::atomic<bool>& stop,
                                            const std::function<void(const ShrinkStep&)>& accepted) const;
  [[nodiscard]] Entry as_seen(const ShrinkTask& task, const ShrinkStep* better) const;
  [[nodiscard]] ShrinkBudget budget(VerdictKind kind) const;

  CampaignState& state_;
  Reproducers& reproducers_;
  const ShrinkLimits limits_;
  double owed_ = 0;  // seconds that the only job has shrunk longer than it drew
  bool drawing_ = true;
  std::vector<ShrinkTask> withheld_;   // failures since the subject last returned anything
  std::vector<ShrinkTask> postponed_;  // until drawing ends
  Shrinker shrinker_;                  // last: its threads use the rest
};

}  // namespace attest::engine
