#include <fmt/format.h>

#include <set>
#include <string>

#include "report/observers.hpp"
#include "report/progress_line.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

class Terminal : public engine::Observer {
 public:
  explicit Terminal(TerminalOptions options) : line_(options), look_(options.look) {}

  void on_start(const engine::CampaignOptions& campaign, const SubjectInfo& info) override {
    std::string line = fmt::format("attest {} {}", campaign.verb, campaign.subject);
    if (!info.version.empty()) line += " " + info.version;
    if (campaign.subject_b) line += " and " + campaign.subject_b->subject;
    line += campaign.seed_kept_back ? ", seed by --seed-fd" : fmt::format(", seed {}", campaign.seed);
    if (campaign.cases) line += fmt::format(", {}", counted(*campaign.cases, "problem"));
    if (campaign.seconds) line += fmt::format(", {}", duration(*campaign.seconds));
    line += fmt::format(", {}", counted(static_cast<std::uint64_t>(campaign.jobs), "job"));
    if (campaign.repeat > 1) line += fmt::format(", each plan for {} problems", campaign.repeat);
    if (campaign.policy) line += ", policy " + campaign.policy_text;
    line_.say(line + "\n");
    quiet_until_shrunk_ = !campaign.known.empty();
    const ops::Op& op = engine::op_of(campaign, info);
    line_.say(policy_text(campaign, info));
    line_.say(op.preface(info));
  }

  void on_progress(const engine::Progress& progress) override {
    if (!line_.is_due()) return;
    std::string line = fmt::format("{}, {:.0f}/s", counted(progress.cases, "problem"),
                                   progress.seconds > 0 ? static_cast<double>(progress.cases) / progress.seconds : 0.0);
    if (progress.failing_cases > 0) line += fmt::format(", {} failing", grouped(progress.failing_cases));
    if (progress.summary != nullptr && !progress.summary->findings.empty())
      line += fmt::format(" in {}", counted(progress.summary->findings.size(), "bucket"));
    if (progress.seconds_left)
      line += fmt::format(", {} left", duration(*progress.seconds_left));
    else if (progress.cases_left)
      line += fmt::format(", {} left", grouped(*progress.cases_left));
    line_.show(line);
  }

  // The first failure of each kind, before it is shrunk, with -v; a known failure is not told, and with --known none is
  // until that is clear.
  void on_failure(const engine::RawFailure& failure) override {
    const engine::FailureKey key = failure.outcome.key();
    if (!look_.verbose || quiet_until_shrunk_ || told_ >= most_told || !kinds_.insert(engine::to_text(key)).second)
      return;
    ++told_;
    line_.say(fmt::format("{} {} in case {} after {}: {}\n", name(key.kind), key.property, grouped(failure.case_number),
                          duration(failure.seconds), to_text(failure.problem)));
  }

  void on_shrink_step(const engine::ShrinkStep& step) override {
    if (line_.live())
      line_.show(fmt::format("shrinking: {} {} after {}", grouped(static_cast<std::uint64_t>(work_of(step.best))),
                             step.best.op().unit_of_work(), counted(static_cast<std::uint64_t>(step.calls), "call")));
  }

  // The first reproducer of each kind, with -v; the end tells all of them.
  void on_finding(const engine::Finding& finding, bool first) override {
    const std::string key = engine::to_text(engine::failure_key_of(finding.entry));
    if (!look_.verbose || !first || finding.known || shrunk_.size() >= most_told || !shrunk_.insert(key).second) return;
    line_.say(fmt::format("  shrunk to {}\n",
                          finding.reproducer.empty() ? to_text(finding.entry.problem) : finding.reproducer));
  }

  void on_end(const engine::Summary& summary) override { line_.say("\n" + summary_text(summary, look_)); }

 private:
  static constexpr std::size_t most_told = 3;  // kinds of failures told while the campaign goes on

  ProgressLine line_;
  Look look_;
  bool quiet_until_shrunk_ = false;
  std::set<std::string> kinds_, shrunk_;
  std::size_t told_ = 0;
};

}  // namespace

std::unique_ptr<engine::Observer> terminal_observer(TerminalOptions options) {
  return std::make_unique<Terminal>(options);
}

}  // namespace attest::report
