#include "engine/timed.hpp"

#include <algorithm>
#include <chrono>

#include "engine/passed_on.hpp"

namespace attest::engine {
namespace {

class TimedSubject final : public PassedOn {
 public:
  TimedSubject(std::unique_ptr<Subject> inner, const std::function<bool()>& over, const std::function<double()>& left)
      : PassedOn(*inner), owned_(std::move(inner)), over_(over), left_(left) {}
  std::vector<CallResult> run(std::span<const Call> calls) override {
    if (over_()) throw OutOfTime{};
    return PassedOn::run(calls);
  }
  bool renew() override {
    if (over_()) throw OutOfTime{};
    return PassedOn::renew();
  }
  void wait_longer(int times, double most) noexcept override { PassedOn::wait_longer(times, std::min(most, left_())); }

 private:
  std::unique_ptr<Subject> owned_;
  const std::function<bool()>& over_;
  const std::function<double()>& left_;
};

}  // namespace

double machine_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Subject> Timed::open() const {
  if (over_()) throw OutOfTime{};
  return std::make_unique<TimedSubject>(inner_.open(), over_, left_);
}

}  // namespace attest::engine
