#include "engine/restated.hpp"

#include <utility>

#include "subjects/origin.hpp"

namespace attest::engine {
namespace {

// `info` is the factory's, which outlives its instances.
class RestatedInstance final : public Restated {
 public:
  RestatedInstance(const SubjectInfo& info, std::unique_ptr<Subject> inner)
      : Restated(info, *inner), inner_(std::move(inner)) {}

 private:
  std::unique_ptr<Subject> inner_;
};

class RestatedFactory final : public FromFile {
 public:
  RestatedFactory(std::unique_ptr<SubjectFactory> inner, SubjectInfo info)
      : inner_(std::move(inner)), info_(std::move(info)) {
    origin_ = origin_of(*inner_);
  }
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<Subject> open() const override {
    return std::make_unique<RestatedInstance>(info_, inner_->open());
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
