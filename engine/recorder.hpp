#pragma once
#include <optional>
#include <vector>

#include "core/problem.hpp"
#include "core/subject.hpp"

namespace attest::engine {

// What a call says of a problem: shapes, options, which tensors are there, how they lie and, set by hand, every number in them.
// Which kind a mask, a bias or lengths are of is not told. nullopt of a call with more than 4,096 numbers.
std::optional<Problem> problem_of(const attest_attention& call);

// Passes calls on to a subject and remembers what small ones said.
class Recorder final : public Subject {
 public:
  explicit Recorder(Subject& inner) : inner_(inner) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_.info(); }
  std::vector<CallResult> run(std::span<const Call> calls) override;
  bool renew() override { return inner_.renew(); }
  [[nodiscard]] const std::vector<Problem>& calls() const noexcept { return calls_; }

 private:
  Subject& inner_;
  std::vector<Problem> calls_;
};

}  // namespace attest::engine
