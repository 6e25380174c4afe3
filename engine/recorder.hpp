#pragma once
#include <span>
#include <vector>

#include "core/subject.hpp"
#include "engine/ops.hpp"

namespace attest::engine {

// Passes calls on to a subject and remembers what small ones said, told as problems.
class Recorder final : public Subject {
 public:
  Recorder(Subject& inner, const Op& op) : inner_(inner), op_(op) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_.info(); }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    for (const Call& call : calls)
      if (std::optional<Problem> problem = op_.recorded(call)) calls_.push_back(std::move(*problem));
    return inner_.run(calls);
  }
  bool renew() override { return inner_.renew(); }
  [[nodiscard]] const std::vector<Problem>& calls() const noexcept { return calls_; }

 private:
  Subject& inner_;
  const Op& op_;
  std::vector<Problem> calls_;
};

}  // namespace attest::engine
