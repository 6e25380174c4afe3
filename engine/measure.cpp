#include "engine/measure.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "core/error.hpp"
#include "engine/check.hpp"
#include "engine/instance.hpp"
#include "engine/stream.hpp"

namespace attest::engine {
namespace {

// The smallest value that is no less than `percent` of all values; 0 of none.
double percentile(std::vector<double>& values, std::size_t percent) {
  if (values.empty()) return 0;
  const std::size_t rank = std::max<std::size_t>(1, (percent * values.size() + 99) / 100);
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// One subject on one problem, some repeats at a time.
class Runner {
 public:
  Runner(Station& station, const Problem& problem, const Contract& contract)
      : station_(station), problem_(problem), contract_(contract), laws_{law_named(policy_bound_name, problem.op())} {}

  // False if the call could not be made.
  bool run(double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point begin) {
      return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    const Clock::time_point begin = Clock::now();
    do {
      const Clock::time_point before = Clock::now();
      const CaseOutcome outcome = check(problem_, contract_, station_.bench(), laws_);
      last_ = outcome.laws.front().verdict;
      if (last_->kind == VerdictKind::skip || ends_instance(last_->kind) || last_->kind == VerdictKind::error ||
          outcome.subject_calls == 0)
        return false;
      problems_.push_back(since(before));
      calls_.push_back(outcome.seconds.subject / static_cast<double>(outcome.subject_calls));
    } while (since(begin) < seconds);
    return true;
  }

  [[nodiscard]] const Verdict& verdict() const { return *last_; }
  [[nodiscard]] Cost cost() {
    const int repeats = static_cast<int>(calls_.size());
    return {percentile(calls_, 50), percentile(problems_, 50), percentile(calls_, 90), percentile(calls_, 99), repeats};
  }

 private:
  Station& station_;
  const Problem& problem_;
  const Contract contract_;
  const std::array<std::size_t, 1> laws_;
  std::optional<Verdict> last_;
  std::vector<double> calls_, problems_;
};

std::optional<std::string> declined(const Problem& problem, const SubjectInfo& info) {
  const Op& op = problem.op();
  if (!op.offered(info)) return fmt::format("it does not offer {}", op.name());
  return op.declined(problem, info, op.dtypes(info));
}

}  // namespace

std::vector<Measured> measure(const SubjectFactory& subject, const SubjectFactory& beside,
                              const MeasureOptions& options) {
  const Op& op = *options.op;
  Station station(subject, nullptr), other(beside, nullptr);
  std::vector<Measured> all;
  for (const std::string& text : options.problems) {
    Measured& at = all.emplace_back();
    at.problem = problem_from_text(text);
    if (at.problem.op().name() != op.name())
      throw usage_error(fmt::format("{} is a problem of {}, not of {}", text, at.problem.op().name(), op.name()));
    validate(at.problem);
    at.work = op.work(at.problem);
    if (const auto why = declined(at.problem, subject.info())) {
      at.skipped = *why;
      continue;
    }
    Runner own(station, at.problem, contract_for_problem(subject.info(), options.policy, at.problem));
    std::optional<Runner> peer;
    if (!declined(at.problem, beside.info()))
      peer.emplace(other, at.problem, contract_for_problem(beside.info(), options.policy, at.problem));
    for (int round = 0; round < options.rounds && at.skipped.empty(); ++round) {
      if (!own.run(options.seconds))
        at.skipped = own.verdict().reason.empty() ? "the call failed" : own.verdict().reason;
      if (at.skipped.empty() && peer && !peer->run(options.seconds)) peer.reset();
    }
    if (!at.skipped.empty()) continue;
    at.subject = own.cost();
    if (own.verdict().kind != VerdictKind::vacuous) at.held = own.verdict().kind != VerdictKind::fail;
    if (peer) at.beside = peer->cost();
  }
  return all;
}

}  // namespace attest::engine
