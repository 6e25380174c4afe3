#include <fmt/format.h>

#include <chrono>
#include <string>

#include "report/observers.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using Clock = std::chrono::steady_clock;

class Terminal : public engine::Observer {
 public:
  explicit Terminal(TerminalOptions options) : options_(options) {}

  void on_start(const engine::CampaignOptions& campaign, const SubjectInfo& info) override {
    std::string line = fmt::format("attest {} {}", campaign.verb, campaign.subject);
    if (!info.version.empty()) line += " " + info.version;
    line += fmt::format(", seed {}", campaign.seed);
    if (campaign.cases) line += fmt::format(", {} problems", grouped(*campaign.cases));
    if (campaign.seconds) line += fmt::format(", {}", duration(*campaign.seconds));
    line += fmt::format(", {} {}", campaign.jobs, campaign.jobs == 1 ? "job" : "jobs");
    if (campaign.policy) line += ", policy " + campaign.policy_text;
    say(line + "\n");
    if (!info.policy_declared && !campaign.policy) say(std::string(undeclared_policy));
  }

  void on_progress(const engine::Progress& progress) override {
    const auto now = Clock::now();
    const double interval = options_.live ? 0.2 : 10;
    if (std::chrono::duration<double>(now - last_).count() < interval) return;
    last_ = now;
    std::string line = fmt::format("{} problems, {:.0f}/s", grouped(progress.cases),
                                   progress.seconds > 0 ? static_cast<double>(progress.cases) / progress.seconds : 0.0);
    if (progress.failing_cases > 0) line += fmt::format(", {} failing", grouped(progress.failing_cases));
    if (progress.summary != nullptr && !progress.summary->findings.empty())
      line += fmt::format(" in {} buckets", progress.summary->findings.size());
    if (progress.seconds_left)
      line += fmt::format(", {} left", duration(*progress.seconds_left));
    else if (progress.cases_left)
      line += fmt::format(", {} left", grouped(*progress.cases_left));
    show(line);
  }

  void on_failure(const engine::RawFailure& failure) override {
    const engine::LawVerdict* law = failure.outcome.finding();
    const engine::FailureKey key = failure.outcome.key();
    say(fmt::format("\n{} {}  case {} after {}\n  problem  {}\n", name(law->verdict.kind), key.property,
                    grouped(failure.case_number), duration(failure.seconds), to_text(failure.problem)));
    if (law->verdict.evidence) say("  witness  " + evidence_line(*law->verdict.evidence) + "\n");
    if (!law->verdict.reason.empty()) say("  said     " + law->verdict.reason + "\n");
  }

  void on_shrink_step(const engine::ShrinkStep& step) override {
    if (options_.live)
      show(fmt::format("shrinking: {} multiply-adds after {} calls",
                       grouped(static_cast<std::uint64_t>(step.best.multiply_adds())), step.calls));
  }

  void on_finding(const engine::Finding& finding, bool first) override {
    const bool drift = finding.entry.property == engine::drift_name;
    if (drift) say("\ndrift, over the whole campaign\n");
    say(fmt::format("  {}   {}\n", drift ? "worst " : "shrunk", to_text(finding.entry.problem)));
    if (finding.entry.evidence) say("  witness  " + evidence_line(*finding.entry.evidence) + "\n");
    say(fmt::format("  bucket   {}{}\n", finding.entry.bucket, first ? "" : " (seen before; this one is simpler)"));
  }

  void on_end(const engine::Summary& summary) override { say("\n" + summary_text(summary)); }

 private:
  void say(const std::string& text) {
    clear();
    if (!options_.quiet) options_.out << text << std::flush;
  }
  void show(const std::string& line) {
    if (options_.live) {
      options_.progress << "\r\033[K" << line << std::flush;
      line_shown_ = true;
    } else {
      options_.progress << line << std::endl;
    }
  }
  void clear() {
    if (line_shown_) options_.progress << "\r\033[K" << std::flush;
    line_shown_ = false;
  }

  TerminalOptions options_;
  Clock::time_point last_ = Clock::now();
  bool line_shown_ = false;
};

}  // namespace

std::unique_ptr<engine::Observer> terminal_observer(TerminalOptions options) {
  return std::make_unique<Terminal>(options);
}

}  // namespace attest::report
