#include "subjects/worker.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "subjects/names.hpp"
#include "subjects/worker_source.hpp"

namespace attest {
namespace {

constexpr std::uintmax_t largest_log = std::uintmax_t{16} << 20;
constexpr int trips_between_looks = 1024;

// The output of a worker is kept, but not without end: a full log begins anew. A link that a worker put in its place is
// not followed.
void keep_log_small(const std::filesystem::path& log) {
  std::error_code ignored;
  const std::uintmax_t size = std::filesystem::file_size(log, ignored);
  if (ignored || size <= largest_log) return;
  const int file = ::open(log.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  [[maybe_unused]] const int emptied = ::ftruncate(file, 0);
  ::close(file);
}

class WorkerSubject : public Subject {
 public:
  WorkerSubject(const SubjectInfo& info, const WorkerCommand& command, const std::string& subject,
                std::shared_ptr<WorkerSource> source)
      : info_(info),
        command_(command),
        subject_(subject),
        source_(std::move(source)),
        connection_(source_->first(subject_)) {}
  ~WorkerSubject() override { part(); }

  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }

  std::vector<CallResult> run(std::span<const Call> calls) override {
    if (++trips_ % trips_between_looks == 0) keep_log_small(command_.log);
    if (has_leaving_) has_leaving_ = source_->has_leaving();
    std::vector<CallResult> results;
    bool orphaned = false;
    while (results.size() < calls.size()) {
      if (!connection_)
        if (const std::string failure = start_again(); !failure.empty()) {
          results.resize(calls.size(), {CallStatus::error, failure});
          break;
        }
      const bool fresh = connection_->is_fresh();
      const auto start = Process::Clock::now();
      const auto more = connection_->run(subject_, calls.subspan(results.size()), patience());
      if (fresh && connection_->usable()) source_->was_warmed_up_in(Process::Clock::now() - start);
      if (fresh && more.front().status == CallStatus::timeout) source_->did_not_warm_up();
      results.insert(results.end(), more.begin(), more.end());
      if (!connection_->usable() && connection_->is_orphan() &&
          !orphaned) {  // no fault of the call's, unless it is again
        orphaned = true;
        results.pop_back();
      }
      if (!connection_->usable()) connection_.reset();
    }
    return results;
  }

  // Starts anew. Where the next worker is ready, nobody waits for the end of this one.
  bool renew() override {
    if (command_.ways.nursery) part();
    connection_.reset();
    return true;
  }
  void wait_longer(int times, double most) noexcept override {
    longer_ = times;
    most_ = most;
  }

 private:
  void part() {
    if (!connection_) return;
    source_->see_off(std::move(connection_));
    has_leaving_ = true;
  }

  // The time to wait for a call. The limit is for the kernel alone; the subject states its times for plans and its
  // first call for an idle machine.
  [[nodiscard]] Patience patience() const {
    const auto busy = [](double ms) { return std::chrono::milliseconds(std::lround(WorkerSource::busy * ms)); };
    const auto limit = command_.limits.call;
    const std::chrono::duration<double> wanted = longer_ * limit;
    const auto call =
        (wanted.count() <= most_ ? longer_ * limit
                                 : std::max(2 * limit, std::chrono::milliseconds(std::llround(1000 * most_)))) +
        busy(info_.plan_ms);
    return {call, call + (info_.warm_up_ms ? busy(*info_.warm_up_ms) : source_->warm_up())};
  }

  // Empty, or why it could not be.
  std::string start_again() {
    try {
      keep_log_small(command_.log);
      connection_ = source_->next(subject_);
      return {};
    } catch (const Error& error) {
      if (error.exit() != Exit::no_subject) throw;
      return std::string("the worker did not start again: ") + error.what();
    }
  }

  SubjectInfo info_;
  WorkerCommand command_;
  std::string subject_;
  std::shared_ptr<WorkerSource> source_;
  std::unique_ptr<WorkerConnection> connection_;  // absent after a death, until the next call
  bool has_leaving_ = false;                      // perhaps: those that were renewed and are about to end
  int trips_ = 0, longer_ = 1;
  double most_ = std::numeric_limits<double>::infinity();  // seconds
};

}  // namespace

WorkerFactory::WorkerFactory(WorkerCommand command, const std::string& wanted, const std::string& display_name)
    : command_(std::move(command)) {
  keep_log_small(command_.log);
  source_ = std::make_shared<WorkerSource>(command_, wanted);
  const std::vector<Offer>& offers = source_->offers();
  std::vector<std::string> names;
  for (const Offer& offer : offers) names.push_back(offer.name);
  const Offer& offer = offers[choose(names, wanted, command_.target)];
  subject_ = offer.name;
  info_ = subject_info(offer, display_name);
  if (!command_.file.empty()) origin_ = {std::filesystem::absolute(command_.file), subject_};
}

std::unique_ptr<Subject> WorkerFactory::open() const {
  return std::make_unique<WorkerSubject>(info_, command_, subject_, source_);
}

}  // namespace attest
