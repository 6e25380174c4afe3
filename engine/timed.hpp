#pragma once
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/subject.hpp"

namespace attest::engine {

// Seconds since some moment of its own; for any number of threads.
using Clock = std::function<double()>;
// Seconds of the machine's clock.
double machine_seconds();

// Seconds that steps may take in all, by a clock that runs on between them. One thread spends, and any asks.
class Allowance {
 public:
  Allowance(double seconds, Clock clock) : clock_(std::move(clock)), left_(seconds) {}
  // Runs the step, whatever is left.
  template <class Step>
  auto spend(Step&& step) {
    const Spell spell(*this);
    return step();
  }
  // Tells whether a step under way has used up what was left.
  [[nodiscard]] bool is_spent() const { return clock_() - begun_ >= left_; }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();
  class Spell {
   public:
    explicit Spell(Allowance& of) : of_(of) { of_.begun_ = of_.clock_(); }
    ~Spell() { of_.left_ = of_.left_ - (of_.clock_() - of_.begun_.exchange(never)); }
    Spell(const Spell&) = delete;
    Spell& operator=(const Spell&) = delete;

   private:
    Allowance& of_;
  };
  const Clock clock_;
  std::atomic<double> begun_ = never, left_;
};

// Thrown in place of a call that is not begun, since time is over. The work under way is given up.
struct OutOfTime {};

// Instances that begin no call and no life once `over` says so: they throw OutOfTime. A call that was begun goes on to
// its end; one that is given longer than its limit has no more than the seconds that `left` says.
class Timed final : public SubjectFactory {
 public:
  // `inner` must outlive it and its instances; the two are asked from any thread.
  Timed(const SubjectFactory& inner, std::function<bool()> over, std::function<double()> left)
      : inner_(inner), over_(std::move(over)), left_(std::move(left)) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_.info(); }
  [[nodiscard]] std::unique_ptr<Subject> open() const override;

 private:
  const SubjectFactory& inner_;
  std::function<bool()> over_;
  std::function<double()> left_;
};

}  // namespace attest::engine
