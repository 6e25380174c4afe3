#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/subject.hpp"

namespace attest::engine {

// Seconds since some moment of its own; for any number of threads.
using Clock = std::function<double()>;
// That of the machine.
double machine_seconds();

// In place of a call that is not begun, since time is over. What was under way then is given up.
struct OutOfTime {};

// Instances that begin no call and no life once `over` says so: they throw OutOfTime. A call that was begun goes on to its end.
class Timed final : public SubjectFactory {
 public:
  // `inner` must outlive it and its instances; `over` is asked from any thread.
  Timed(const SubjectFactory& inner, std::function<bool()> over) : inner_(inner), over_(std::move(over)) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_.info(); }
  [[nodiscard]] std::unique_ptr<Subject> open() const override;

 private:
  const SubjectFactory& inner_;
  std::function<bool()> over_;
};

}  // namespace attest::engine
