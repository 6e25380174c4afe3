#pragma once
#include <memory>
#include <span>
#include <vector>

#include "core/subject.hpp"

namespace attest::engine {

// The answers of one subject, of which `info` is said. Both must outlive it.
class Restated : public Subject {
 public:
  Restated(const SubjectInfo& info, Subject& answers) : info_(info), answers_(answers) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  std::vector<CallResult> run(std::span<const Call> calls) override { return answers_.run(calls); }
  bool renew() override { return answers_.renew(); }
  void wait_longer(int times) noexcept override { answers_.wait_longer(times); }

 private:
  const SubjectInfo& info_;
  Subject& answers_;
};

// The subject as it is, of which `info` is said: another policy, or less that it takes.
std::unique_ptr<SubjectFactory> restated(std::unique_ptr<SubjectFactory> subject, SubjectInfo info);

}  // namespace attest::engine
