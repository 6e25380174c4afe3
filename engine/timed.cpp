#include "engine/timed.hpp"

#include <chrono>

#include "engine/passed_on.hpp"

namespace attest::engine {
namespace {

class TimedSubject final : public PassedOn {
 public:
  TimedSubject(std::unique_ptr<Subject> inner, const std::function<bool()>& over)
      : PassedOn(*inner), owned_(std::move(inner)), over_(over) {}
  std::vector<CallResult> run(std::span<const Call> calls) override {
    if (over_()) throw OutOfTime{};
    return PassedOn::run(calls);
  }
  bool renew() override {
    if (over_()) throw OutOfTime{};
    return PassedOn::renew();
  }

 private:
  std::unique_ptr<Subject> owned_;
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
