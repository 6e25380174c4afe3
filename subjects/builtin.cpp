#include "subjects/builtin.hpp"

#include <chrono>
#include <string>
#include <utility>

#include "core/attention/call.hpp"
#include "core/error.hpp"
#include "core/tensor.hpp"
#include "kernels/forget.hpp"
#include "kernels/registry.hpp"

namespace attest {
namespace {

using kernels::KernelEntry;

constexpr std::string_view builtin_prefix = "builtin:", fault_prefix = "fault:";

class BuiltinSubject : public Subject {
 public:
  BuiltinSubject(const SubjectInfo& info, const KernelEntry& kernel, const std::optional<Policy>& policy)
      : info_(info), kernel_(kernel), policy_(policy) {}

  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }

  std::vector<CallResult> run(std::span<const Call> calls) override {
    if (std::exchange(fresh_, false)) kernels::forget_calls();
    std::vector<CallResult> results;
    for (const Call& call : calls) results.push_back(answer(call.as<attest_attention>()));
    return results;
  }
  bool renew() override { return fresh_ = true; }

 private:
  CallResult answer(const attest_attention& call) const {
    CallResult result;
    const auto start = std::chrono::steady_clock::now();
    try {
      kernel_.run(call, kernel_.contract(policy_ ? *policy_ : policy_for(format_of(dtype_of(call.q.dtype).value()))));
    } catch (const std::exception& error) {
      result.status = CallStatus::error;
      result.message = error.what();
    }
    result.elapsed_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  SubjectInfo info_;
  const KernelEntry& kernel_;
  std::optional<Policy> policy_;
  bool fresh_ = true;
};

class BuiltinFactory : public SubjectFactory {
 public:
  BuiltinFactory(std::string_view name, const KernelEntry& kernel, const std::optional<Policy>& policy)
      : kernel_(kernel), policy_(policy) {
    info_.name = name;
    info_.version = ATTEST_VERSION;
    info_.doc = kernel.doc;
    info_.concurrent = true;
    if (policy)
      info_.policies = {*policy};
    else
      info_.policies = {policy_for(Format::f32), policy_for(Format::f16), policy_for(Format::bf16)};
    info_.dtypes.clear();
    for (const Policy& each : info_.policies) info_.dtypes.push_back(each[Stage::storage]);
    info_.semantics = kernel.contract(info_.policies.front());
    info_.supports = Supports::everything();
    if (kernel.forms != nullptr) info_.supports.forms = kernel.forms();
  }

  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<Subject> open() const override {
    return std::make_unique<BuiltinSubject>(info_, kernel_, policy_);
  }

 private:
  const KernelEntry& kernel_;
  std::optional<Policy> policy_;
  SubjectInfo info_;
};

std::vector<ListedSubject> listed(std::string_view prefix, std::span<const KernelEntry> kernels) {
  std::vector<ListedSubject> subjects;
  for (const KernelEntry& kernel : kernels)
    subjects.push_back({std::string(prefix) + std::string(kernel.name), std::string(kernel.doc),
                        kernel.parent.empty() ? "" : std::string(builtin_prefix) + std::string(kernel.parent),
                        std::string(kernel.report)});
  return subjects;
}

}  // namespace

std::vector<ListedSubject> builtin_subjects() { return listed(builtin_prefix, kernels::builtin_kernels()); }
std::vector<ListedSubject> fault_subjects() { return listed(fault_prefix, kernels::fault_kernels()); }

std::unique_ptr<SubjectFactory> builtin_subject(std::string_view name, const std::string& policy_text) {
  const KernelEntry* kernel = nullptr;
  if (name.starts_with(builtin_prefix))
    kernel = find_kernel(kernels::builtin_kernels(), name.substr(builtin_prefix.size()));
  else if (name.starts_with(fault_prefix))
    kernel = find_kernel(kernels::fault_kernels(), name.substr(fault_prefix.size()));
  if (kernel == nullptr) return nullptr;
  std::optional<Policy> policy;
  if (!policy_text.empty()) policy = policy_from_text(policy_text);
  return std::make_unique<BuiltinFactory>(name, *kernel, policy);
}

}  // namespace attest
