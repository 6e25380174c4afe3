#include "engine/timed.hpp"

#include <chrono>

namespace attest::engine {
namespace {

class TimedSubject final : public Subject {
 public:
  TimedSubject(std::unique_ptr<Subject> inner, const std::function<bool()>& over)
      : inner_(std::move(inner)), over_(over) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_->info(); }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    if (over_()) throw OutOfTime{};
    return inner_->run(calls);
  }
  bool renew() override {
    if (over_()) throw OutOfTime{};
    return inner_->renew();
  }
  void wait_longer(int times) noexcept override { inner_->wait_longer(times); }

 private:
  std::unique_ptr<Subject> inner_;
  const std::function<bool()>& over_;
};

}  // namespace

double machine_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Subject> Timed::open() const {
  if (over_()) throw OutOfTime{};
  return std::make_unique<TimedSubject>(inner_.open(), over_);
}

}  // namespace attest::engine
