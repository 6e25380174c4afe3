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

// Every call has a fresh instance to itself.
class Apart final : public Subject {
 public:
  explicit Apart(Subject& inner) : inner_(inner) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_.info(); }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    std::vector<CallResult> results;
    for (const Call& call : calls) {
      all_ = inner_.renew() && all_;
      results.push_back(inner_.run_one(call));
    }
    return results;
  }
  bool renew() override { return inner_.renew(); }
  // Whether the subject could be renewed before each of them.
  [[nodiscard]] bool were_all() const noexcept { return all_; }

 private:
  Subject& inner_;
  bool all_ = true;
};

}  // namespace attest::engine
