#pragma once
#include <optional>
#include <span>
#include <utility>
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
      if (std::optional<Problem> problem = op_.recorded(call, nullptr)) calls_.push_back(std::move(*problem));
    return inner_.run(calls);
  }
  bool renew() override { return inner_.renew(); }
  void wait_longer(int times) noexcept override { inner_.wait_longer(times); }
  [[nodiscard]] const std::vector<Problem>& calls() const noexcept { return calls_; }

 private:
  Subject& inner_;
  const Op& op_;
  std::vector<Problem> calls_;
};

// Passes calls on, and remembers the last one that was not done, told as a problem if it is small.
class Noting final : public Subject {
 public:
  // `like`: the problem that all calls are made of.
  Noting(Subject& inner, const Problem& like) : inner_(inner), like_(like) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return inner_.info(); }
  std::vector<CallResult> run(std::span<const Call> calls) override {
    std::vector<CallResult> results = inner_.run(calls);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (results[i].status != CallStatus::done && results[i].status != CallStatus::unsupported)
        failed_ = like_.op().recorded(calls[i], &like_);
    return results;
  }
  bool renew() override { return inner_.renew(); }
  void wait_longer(int times) noexcept override { inner_.wait_longer(times); }
  // It, once.
  [[nodiscard]] std::optional<Problem> take_failed() { return std::exchange(failed_, std::nullopt); }

 private:
  Subject& inner_;
  const Problem& like_;
  std::optional<Problem> failed_;
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
  void wait_longer(int times) noexcept override { inner_.wait_longer(times); }
  // Whether the subject could be renewed before each of them.
  [[nodiscard]] bool were_all() const noexcept { return all_; }

 private:
  Subject& inner_;
  bool all_ = true;
};

}  // namespace attest::engine
