#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/attention/call.hpp"
#include "core/subject.hpp"

namespace attest::engine::test {

// A subject made of one function, for what kernels do not do: die, hang, keep state, answer nonsense.
using Answer = std::function<CallResult(const attest_attention&)>;

class FakeFactory final : public SubjectFactory {
 public:
  FakeFactory(SubjectInfo info, std::function<Answer()> make) : info_(std::move(info)), make_(std::move(make)) {}

  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<Subject> open() const override { return std::make_unique<Fake>(info_, make_); }

 private:
  class Fake final : public Subject {
   public:
    Fake(const SubjectInfo& info, const std::function<Answer()>& make) : info_(info), make_(make), answer_(make_()) {}
    [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
    std::vector<CallResult> run(std::span<const Call> calls) override {
      std::vector<CallResult> results;
      for (const Call& call : calls) results.push_back(answer_(call.as<attest_attention>()));
      return results;
    }
    bool renew() override {
      answer_ = make_();
      return true;
    }

   private:
    const SubjectInfo& info_;
    const std::function<Answer()>& make_;
    Answer answer_;
  };

  SubjectInfo info_;
  std::function<Answer()> make_;
};

// Runs each call on `inner`, and lets `meddle` change the answer.
inline std::unique_ptr<FakeFactory> meddled(const SubjectFactory& inner,
                                            std::function<CallResult(const attest_attention&, CallResult)> meddle) {
  return std::make_unique<FakeFactory>(inner.info(), [&inner, meddle]() -> Answer {
    const std::shared_ptr<Subject> subject = inner.open();
    return [subject, meddle](const attest_attention& call) { return meddle(call, subject->run_one(call)); };
  });
}

}  // namespace attest::engine::test
