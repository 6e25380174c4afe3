#pragma once
#include <memory>

#include "engine/passed_on.hpp"

namespace attest::engine {

// The answers of one subject, of which `info` is said. Both must outlive it.
class Restated : public PassedOn {
 public:
  Restated(const SubjectInfo& info, Subject& answers) : PassedOn(answers), info_(info) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }

 private:
  const SubjectInfo& info_;
};

// The subject as it is, of which `info` is said: another policy, or less that it takes.
std::unique_ptr<SubjectFactory> restated(std::unique_ptr<SubjectFactory> subject, SubjectInfo info);

}  // namespace attest::engine
