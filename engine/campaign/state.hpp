#pragma once
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <thread>

#include "core/supports.hpp"
#include "engine/avoid.hpp"
#include "engine/campaign.hpp"
#include "engine/campaign_folder.hpp"
#include "engine/case_table.hpp"
#include "engine/ops.hpp"
#include "engine/seen_deaths.hpp"
#include "engine/silence.hpp"
#include "engine/summary.hpp"
#include "engine/timed.hpp"
#include "engine/triage.hpp"

namespace attest::engine {

// The time of a campaign. It ends the drawing, and later every call of a subject. For any number of threads, but for
// begin(), close() and spend().
class CampaignTime {
 public:
  explicit CampaignTime(const CampaignOptions& options) : options_(options) {}

  void begin();
  // Seconds since begin().
  [[nodiscard]] double elapsed() const { return options_.clock() - start_; }
  // Tells whether --time has passed by so many seconds.
  [[nodiscard]] bool is_over(double grace = 0) const {
    return options_.seconds && elapsed() >= *options_.seconds + grace;
  }
  // Seconds that --time leaves, and as many more; infinite without a limit.
  [[nodiscard]] double left(double more = 0) const {
    return options_.seconds ? *options_.seconds + more - elapsed() : std::numeric_limits<double>::infinity();
  }
  // Tells whether time ends the campaign: then what is drawn may depend on what cases cost.
  [[nodiscard]] bool ends_it() const { return options_.seconds || !options_.cases; }
  [[nodiscard]] bool is_interrupted() const { return options_.interrupt && options_.interrupt->load(); }

  // Tells whether no case is begun any more. The first one is, whatever it takes.
  [[nodiscard]] bool is_late() const { return first_is_asked_ && (is_over() || is_interrupted()); }
  void first_asked() { first_is_asked_ = true; }
  // Tells whether no call of a subject may begin, so that the end comes in time whatever its calls cost. The first case
  // of a campaign is asked to its end.
  [[nodiscard]] bool has_no_calls_left();
  // A fresh instance was silent: no call is begun any more.
  void lose() { is_lost_ = true; }
  [[nodiscard]] bool is_lost() const { return is_lost_; }

  // While one of these lives, its thread may begin calls whatever the time is. One at a time.
  class Late {
   public:
    explicit Late(CampaignTime& time) : time_(time) { time_.late_asker_ = std::this_thread::get_id(); }
    ~Late() { time_.late_asker_ = std::thread::id(); }
    Late(const Late&) = delete;
    Late& operator=(const Late&) = delete;

   private:
    CampaignTime& time_;
  };

  // From here on calls alone have a limit: what was left of theirs, and `closing_seconds`.
  Allowance& close();
  // Runs a step after close(), and leaves it out where its calls have no time left.
  template <class Step>
  void spend(Step&& step) {
    try {
      closing_->spend(step);
    } catch (const OutOfTime&) {
    }
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();
  const CampaignOptions& options_;
  double start_ = 0;  // by the clock
  // Seconds from which on no call is begun, and at which somebody wanted the campaign to end.
  std::atomic<double> last_call_ = never, interrupted_at_ = never;
  std::atomic<bool> first_is_asked_ = false, is_lost_ = false;
  std::atomic<std::thread::id> late_asker_;
  std::optional<Allowance> closing_;
};

// The state that the parts of a campaign share. The thread that counts writes it; what is said of any number of threads
// is theirs too, and they read `avoidance` under `rules`.
struct CampaignState {
  CampaignState(const SubjectInfo& subject, const SubjectInfo* second, const CampaignOptions& options,
                Observer& observer);

  // Tells whether a reproducer of this campaign, or of a known defect, lies where the rule says.
  [[nodiscard]] bool stands_for(const AvoidRule& rule) const;

  const CampaignOptions& options;
  Observer& observer;
  const SubjectInfo& info;
  const SubjectInfo* const info_b;  // that of the second of two subjects; null without one
  const Op& op;
  const Supports supports;
  const std::unique_ptr<const Domain> domain;
  CampaignTime time;
  Summary summary;
  Triage triage;
  CaseTable table;
  Avoidance avoidance;
  mutable std::shared_mutex rules;
  PlansEnded ended_by;
  SeenDeaths seen_deaths;
  Silence silence;
  std::atomic<bool> something_fails = false;  // for any number of threads
  std::optional<std::uint64_t> first_case;    // of this run; set before it is asked
  std::unique_ptr<CampaignFolder> folder;
  double seconds_before = 0;  // those of the runs that this one goes on from
};

// Tells whether a failure costs a start of the subject, or a call that nothing was learned from.
bool costs_much(VerdictKind kind) noexcept;
bool costs_much(const CaseOutcome& outcome) noexcept;

}  // namespace attest::engine
