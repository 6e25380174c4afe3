#pragma once
#include <span>
#include <vector>

#include "core/subject.hpp"

namespace attest::engine {

// Another subject as it is: a class between the asker and that one says where it acts otherwise. `inner` must outlive
// it.
class PassedOn : public Subject {
 public:
  explicit PassedOn(Subject& inner) noexcept : inner_(inner) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_.info(); }
  std::vector<CallResult> run(std::span<const Call> calls) override { return inner_.run(calls); }
  bool renew() override { return inner_.renew(); }
  void wait_longer(int times, double most) noexcept override { inner_.wait_longer(times, most); }

 protected:
  Subject& inner_;
};

}  // namespace attest::engine
