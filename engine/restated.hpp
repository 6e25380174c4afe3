#pragma once
#include <memory>
#include <optional>

#include "engine/check.hpp"
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

// The words of a subject by which a failure is judged: what its probes showed, or, unless `as_probed`, what it declares.
inline const SubjectInfo& info_judged_by(const SubjectInfo& info, bool as_probed) noexcept {
  return info.declared && !as_probed ? *info.declared : info;
}

// A bench whose subject says those words. The subject must outlive it.
class AsDeclared {
 public:
  AsDeclared(const Bench& bench, bool as_probed) : of_(bench) {
    const SubjectInfo& own = bench.subject.info();
    if (const SubjectInfo& info = info_judged_by(own, as_probed); &info != &own) subject_.emplace(info, bench.subject);
  }
  AsDeclared(const AsDeclared&) = delete;
  AsDeclared& operator=(const AsDeclared&) = delete;
  [[nodiscard]] Bench bench() const {
    return {subject_ ? *subject_ : of_.subject, of_.peer, of_.instance, of_.quiet, of_.compares};
  }

 private:
  const Bench of_;
  mutable std::optional<Restated> subject_;
};

// The subject as it is, of which `info` is said: another policy, or less that it takes.
std::unique_ptr<SubjectFactory> restated(std::unique_ptr<SubjectFactory> subject, SubjectInfo info);

}  // namespace attest::engine
