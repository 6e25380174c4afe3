#pragma once
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/ops.hpp"
#include "engine/passed_on.hpp"

namespace attest::engine {

// Passes calls on to a subject and remembers what small ones said, told as problems.
class Recorder final : public PassedOn {
 public:
  Recorder(Subject& inner, const Op& op) : PassedOn(inner), op_(op) {}
  std::vector<CallResult> run(std::span<const Call> calls) override {
    for (const Call& call : calls)
      if (std::optional<Problem> problem = op_.recorded(call, nullptr)) calls_.push_back(std::move(*problem));
    return inner_.run(calls);
  }
  [[nodiscard]] const std::vector<Problem>& calls() const noexcept { return calls_; }

 private:
  const Op& op_;
  std::vector<Problem> calls_;
};

// Passes calls on, and remembers the last one that was not done, told as a problem if it is small.
class Noting final : public PassedOn {
 public:
  // `like`: the problem that all calls are made of.
  Noting(Subject& inner, const Problem& like) : PassedOn(inner), like_(like) {}
  std::vector<CallResult> run(std::span<const Call> calls) override {
    std::vector<CallResult> results = inner_.run(calls);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (results[i].status != CallStatus::done && results[i].status != CallStatus::unsupported)
        failed_ = like_.op().recorded(calls[i], &like_);
    return results;
  }
  // It, once.
  [[nodiscard]] std::optional<Problem> take_failed() { return std::exchange(failed_, std::nullopt); }

 private:
  const Problem& like_;
  std::optional<Problem> failed_;
};

// Every call has a fresh instance to itself.
class Apart final : public PassedOn {
 public:
  using PassedOn::PassedOn;
  std::vector<CallResult> run(std::span<const Call> calls) override {
    std::vector<CallResult> results;
    for (const Call& call : calls) {
      all_ = inner_.renew() && all_;
      results.push_back(inner_.run_one(call));
    }
    return results;
  }
  // Tells whether the subject could be renewed before each of them.
  [[nodiscard]] bool were_all() const noexcept { return all_; }

 private:
  bool all_ = true;
};

}  // namespace attest::engine
