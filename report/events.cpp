#include <chrono>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/policy.hpp"
#include "engine/evidence.hpp"
#include "report/observers.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using nlohmann::ordered_json;

class Events : public engine::Observer {
 public:
  explicit Events(std::ostream& out) : out_(out) {}

  void on_start(const engine::CampaignOptions& options, const SubjectInfo& info) override {
    ordered_json event{{"event", "start"},        {"format", 1},
                       {"verb", options.verb},    {"subject", options.subject},
                       {"version", info.version}, {"policy", options.policy_text},
                       {"seed", nullptr},         {"repeat", options.repeat},
                       {"jobs", options.jobs},    {"policy_declared", info.policy_declared}};
    if (!options.seed_kept_back) event["seed"] = options.seed;
    if (options.subject_b) event["subject_b"] = options.subject_b->subject;
    write(event);
  }
  void on_progress(const engine::Progress& progress) override {
    ordered_json event{{"event", "progress"},
                       {"cases", progress.cases},
                       {"executed", progress.executed},
                       {"failing_cases", progress.failing_cases},
                       {"seconds", progress.seconds}};
    write(event);
  }
  void on_failure(const engine::RawFailure& failure) override {
    const engine::LawVerdict* law = failure.outcome.finding();
    ordered_json event{{"event", "failure"},
                       {"case", failure.case_number},
                       {"problem", to_text(failure.problem)},
                       {"key", engine::to_text(failure.outcome.key())},
                       {"reason", law->verdict.reason},
                       {"seconds", failure.seconds}};
    if (law->verdict.evidence) event["witness"] = engine::to_json(*law->verdict.evidence);
    write(event);
  }
  void on_shrink_step(const engine::ShrinkStep& step) override {
    write({{"event", "shrink"}, {"problem", to_text(step.best)}, {"calls", step.calls}, {"change", step.change}});
  }
  void on_finding(const engine::Finding& finding, bool first) override {
    ordered_json event{{"event", "finding"},
                       {"bucket", finding.entry.bucket},
                       {"first", first},
                       {"property", finding.entry.property},
                       {"basis", engine::basis(finding.entry.property)},
                       {"problem", to_text(finding.entry.problem)},
                       {"case", finding.case_number},
                       {"subject_calls", finding.entry.shrink_calls},
                       {"minimal", finding.entry.minimal},
                       {"reproducer", finding.reproducer}};
    if (finding.entry.evidence) event["witness"] = engine::to_json(*finding.entry.evidence);
    write(event);
  }
  void on_end(const engine::Summary& summary) override {
    write({{"event", "end"}, {"summary", summary_json(summary)}});
  }

 private:
  void write(const ordered_json& event) { out_ << json_text(event) << std::endl; }

  std::ostream& out_;
};

}  // namespace

std::unique_ptr<engine::Observer> events_observer(std::ostream& out) { return std::make_unique<Events>(out); }

}  // namespace attest::report
