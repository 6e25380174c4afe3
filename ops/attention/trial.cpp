#include "properties/trial.hpp"

#include <algorithm>

#include "ops/attention/parts.hpp"
#include "properties/property.hpp"

namespace attest::ops::of_attention {
namespace {

class AttentionTrial final : public Trial {
 public:
  AttentionTrial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer)
      : own_(problem, contract, subject, peer) {}

  void calibrate_by(const oracle::Calibration& calibration) noexcept override {
    if (calibration.op.empty()) own_.calibrate_by(calibration);  // else of another operation
  }
  void announce_statistics() noexcept override { own_.announce_statistics(); }
  void base() override { own_.base(); }
  void peer_base() override { own_.peer_result(); }
  Verdict check(const Law& law) override { return properties::all_laws()[law.own].check(own_); }
  std::optional<Aggregate> aggregate() override {
    const oracle::Thresholds& thresholds = own_.thresholds();
    double t = own_.statistics().t();
    if (t > thresholds.cell->t99) t = std::min(t, own_.oracle().second_look(own_.base().out, thresholds.cell->t99));
    return Aggregate{own_.contract().policy, t, thresholds.cell->t99, thresholds.share};
  }
  [[nodiscard]] std::int64_t subject_calls() const noexcept override { return own_.subject_calls(); }
  [[nodiscard]] properties::Trial::Nanoseconds elapsed() const noexcept override { return own_.elapsed(); }

 private:
  properties::Trial own_;
};

}  // namespace

std::unique_ptr<Trial> trial(const Problem& problem, const Contract& contract, Subject& subject, Subject* peer) {
  return std::make_unique<AttentionTrial>(problem, contract, subject, peer);
}

}  // namespace attest::ops::of_attention
