#include "report/observers.hpp"

namespace attest::report {
namespace {

class Tee : public engine::Observer {
 public:
  explicit Tee(std::vector<std::unique_ptr<engine::Observer>> observers) : observers_(std::move(observers)) {}

  void on_start(const engine::CampaignOptions& options, const SubjectInfo& info) override {
    for (auto& observer : observers_) observer->on_start(options, info);
  }
  void on_progress(const engine::Progress& progress) override {
    for (auto& observer : observers_) observer->on_progress(progress);
  }
  void on_failure(const engine::RawFailure& failure) override {
    for (auto& observer : observers_) observer->on_failure(failure);
  }
  void on_shrink_step(const engine::ShrinkStep& step) override {
    for (auto& observer : observers_) observer->on_shrink_step(step);
  }
  void on_finding(const engine::Finding& finding, bool first) override {
    for (auto& observer : observers_) observer->on_finding(finding, first);
  }
  void on_end(const engine::Summary& summary) override {
    for (auto& observer : observers_) observer->on_end(summary);
  }

 private:
  std::vector<std::unique_ptr<engine::Observer>> observers_;
};

}  // namespace

std::unique_ptr<engine::Observer> tee(std::vector<std::unique_ptr<engine::Observer>> observers) {
  return std::make_unique<Tee>(std::move(observers));
}

}  // namespace attest::report
