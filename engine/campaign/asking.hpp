#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/campaign/state.hpp"
#include "engine/dispatch.hpp"
#include "engine/instance.hpp"
#include "engine/quiet.hpp"
#include "engine/turns.hpp"

namespace attest::engine {

// Asks the cases of a campaign, each by itself, on threads that have an instance of the subject each. What becomes of a
// case depends on none of the others, but for deaths and errors that need not be asked for again.
class Asking {
 public:
  // All must outlive it. `settled`: as an instance has it.
  Asking(CampaignState& state, const SubjectFactory& subject, const SubjectFactory* peer,
         std::shared_ptr<Settled> settled);

  // The instances of a thread of the campaign; those of the first serve the counting thread at the end, too.
  [[nodiscard]] Station& station(int thread) { return stations_[static_cast<std::size_t>(thread)]; }
  // Another instance, for one question.
  [[nodiscard]] Station fresh() const;

  // Draws a case and asks it on this thread's instance, unless time is over.
  void ask(CaseRecord& record, int thread);
  // Waits, where all ask one device and calls have just ended processes there, until `thread` may begin a case or
  // `ended` says that there is none.
  void await_turn(int thread, const std::function<bool()>& ended);
  // A thread says that it begins a case, and that it has none.
  void begin_turn(int thread, double patience) { turns_.begin(thread, state_.time.elapsed() + patience); }
  void end_turn(int thread) { turns_.end(thread); }

 private:
  std::vector<std::size_t> run_case(CaseRecord& record, int thread);
  void ask_late(CaseRecord& record, const std::vector<std::size_t>& laws, int thread);
  void note_confirmed(const CaseOutcome& outcome, std::uint64_t plan);
  [[nodiscard]] Bench quiet_bench(int thread);

  CampaignState& state_;
  const SubjectFactory& subject_;
  const SubjectFactory* const peer_;
  const std::shared_ptr<Settled> settled_;
  std::vector<Station> stations_;  // one per thread
  Quiet quiet_;
  Turns turns_;
  std::atomic<double> latest_death_ = -std::numeric_limits<double>::infinity();  // by CampaignTime::elapsed()
  std::mutex late_guard_;                                                        // guards late_findings_
  int late_findings_ = 0;  // time-outs that were confirmed after the end
};

}  // namespace attest::engine
