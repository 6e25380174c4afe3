#include "engine/restated.hpp"

#include <span>
#include <utility>
#include <vector>

namespace attest::engine {
namespace {

class Restated final : public Subject {
 public:
  Restated(const SubjectInfo& info, std::unique_ptr<Subject> inner) : info_(info), inner_(std::move(inner)) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  std::vector<CallResult> run(std::span<const Call> calls) override { return inner_->run(calls); }
  bool renew() override { return inner_->renew(); }

 private:
  const SubjectInfo& info_;  // of the factory, which outlives its instances
  std::unique_ptr<Subject> inner_;
};

class RestatedFactory final : public SubjectFactory {
 public:
  RestatedFactory(std::unique_ptr<SubjectFactory> inner, SubjectInfo info)
      : inner_(std::move(inner)), info_(std::move(info)) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<Subject> open() const override {
    return std::make_unique<Restated>(info_, inner_->open());
  }

 private:
  std::unique_ptr<SubjectFactory> inner_;
  SubjectInfo info_;
};

}  // namespace

std::unique_ptr<SubjectFactory> restated(std::unique_ptr<SubjectFactory> subject, SubjectInfo info) {
  return std::make_unique<RestatedFactory>(std::move(subject), std::move(info));
}

}  // namespace attest::engine
