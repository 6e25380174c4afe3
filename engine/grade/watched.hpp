#pragma once
#include <span>
#include <vector>

#include "core/subject.hpp"

// Subjects between a trial and a kernel, which see what it is asked and what it gives.
namespace attest::engine {

// Passes calls on, and keeps what the first gave.
class Watched final : public Subject {
 public:
  explicit Watched(Subject& subject) : subject_(subject) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return subject_.info(); }
  std::vector<CallResult> run(std::span<const Call> calls) override;

  // The elements of each output, in logical order; none before the first call.
  [[nodiscard]] const std::vector<std::vector<double>>& outputs() const noexcept { return outputs_; }

 private:
  Subject& subject_;
  std::vector<std::vector<double>> outputs_;
};

// Asks the first call of another kernel, which computes in f64, with every tensor of the storage type in f64, and for
// its first output alone. The call's own outputs stay as they are.
class InF64 final : public Subject {
 public:
  // Offers what `info` says. Both must outlive it.
  InF64(Subject& subject, const SubjectInfo& info) : subject_(subject), info_(info) {}
  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  // Throws Error(internal) if the kernel fails.
  std::vector<CallResult> run(std::span<const Call> calls) override;

  // The elements in logical order.
  [[nodiscard]] const std::vector<double>& out() const noexcept { return out_; }

 private:
  Subject& subject_;
  const SubjectInfo& info_;
  std::vector<double> out_;
};

}  // namespace attest::engine
