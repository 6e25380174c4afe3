#include "subjects/builtin.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/attention/call.hpp"
#include "core/error.hpp"
#include "core/layer_norm/call.hpp"
#include "core/mha/call.hpp"
#include "core/policy_stages.hpp"
#include "core/tensor.hpp"
#include "kernels/forget.hpp"
#include "kernels/layer_norm/registry.hpp"
#include "kernels/mha/registry.hpp"
#include "kernels/registry.hpp"

namespace attest {
namespace {

constexpr std::string_view builtin_prefix = "builtin:", fault_prefix = "fault:";

// The object that contract_from_json() takes, which has the policy apart.
nlohmann::json without_policy(const std::string& text) {
  nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  if (object.is_discarded()) throw usage_error("what a kernel is to keep of a contract is no JSON");
  if (object.is_object()) object.erase("policy");
  return object;
}

// ---- the operations that kernels live here of -----------------------------------------------------------------------

struct OfAttention {
  using Entry = kernels::KernelEntry;
  using Policy = attest::Policy;
  using Abi = attest_attention;
  using Contract = attest::Contract;
  static constexpr std::string_view op = "attention", prefix = "";
  static std::span<const Entry> correct() { return kernels::builtin_kernels(); }
  static std::span<const Entry> faults() { return kernels::fault_kernels(); }
  static Policy read(const std::string& text) { return policy_from_text(text); }
  static Policy stored_as(Format format) { return policy_for(format); }
  static Format storage(const Policy& policy) { return policy[Stage::storage]; }
  static const attest_tensor& first(const Abi& call) { return call.q; }
  static void run(const Entry& kernel, const Abi& call, const Contract& contract) { kernel.run(call, contract); }
  static Contract said(const std::string& json, const Policy& policy) {
    return contract_from_json(without_policy(json), policy);
  }
  static void keep_semantics(const Contract& from, Contract& to) {
    if (from.empty_row != EmptyRow::unspecified) to.empty_row = from.empty_row;
    to.softcap_before_bias = from.softcap_before_bias;
  }

  static void describe(const Entry& kernel, std::vector<Policy> policies, SubjectInfo& info) {
    info.dtypes.clear();
    for (const Policy& each : policies) info.dtypes.push_back(storage(each));
    info.semantics = kernel.contract(policies.front());
    info.supports = Supports::everything();
    if (kernel.forms != nullptr) info.supports.forms = kernel.forms();
    info.policies = std::move(policies);
  }
};

struct OfLayerNorm {
  using Entry = kernels::layer_norm::KernelEntry;
  using Policy = layer_norm::Policy;
  using Abi = attest_layer_norm;
  using Contract = layer_norm::Contract;
  static constexpr std::string_view op = "layer_norm", prefix = "ln-";  // its faults have the prefix in their names
  static std::span<const Entry> correct() { return kernels::layer_norm::builtin_kernels(); }
  static std::span<const Entry> faults() { return kernels::layer_norm::fault_kernels(); }
  static Policy read(const std::string& text) { return layer_norm::policy_from_text(text); }
  static Policy stored_as(Format format) { return layer_norm::policy_for(format); }
  static Format storage(const Policy& policy) { return policy[layer_norm::Stage::storage]; }
  static const attest_tensor& first(const Abi& call) { return call.x; }
  static void run(const Entry& kernel, const Abi& call, const Contract& contract) { kernel.run(call, contract); }
  static Contract said(const std::string& json, const Policy& policy) {
    return layer_norm::contract_from_json(without_policy(json), policy);
  }
  static void keep_semantics(const Contract& from, Contract& to) { to.gamma_offset = from.gamma_offset; }

  static void describe(const Entry& kernel, std::vector<Policy> policies, SubjectInfo& info) {
    info.ops = {std::string(op)};
    layer_norm::Offer offer;
    for (const Policy& each : policies) offer.dtypes.push_back(storage(each));
    offer.semantics = kernel.contract(policies.front());
    offer.supports = layer_norm::Supports::everything();
    offer.policies = std::move(policies);
    info.dtypes = offer.dtypes;
    info.layer_norm = std::move(offer);
  }
};

struct OfMha {
  using Entry = kernels::BlockEntry;
  using Policy = mha::Policy;
  using Abi = attest_mha;
  using Contract = mha::Contract;
  static constexpr std::string_view op = "mha", prefix = "mha-";
  static std::span<const Entry> correct() { return kernels::builtin_blocks(); }
  static std::span<const Entry> faults() { return kernels::fault_blocks(); }
  static Policy read(const std::string& text) { return mha::policy_from_text(text); }
  static Policy stored_as(Format format) { return mha::policy_from_text(name(format)); }
  static Format storage(const Policy& policy) { return policy.attention[Stage::storage]; }
  static const attest_tensor& first(const Abi& call) { return call.x; }
  static void run(const Entry& kernel, const Abi& call, const Contract& contract) {
    kernel.run(mha::from_plugin(call), contract);
  }
  static Contract said(const std::string& json, const Policy& policy) {
    return mha::contract_from_json(without_policy(json), policy);
  }
  static void keep_semantics(const Contract& from, Contract& to) {
    OfAttention::keep_semantics(from.attention, to.attention);
  }

  static void describe(const Entry& kernel, std::vector<Policy> policies, SubjectInfo& info) {
    info.ops = {std::string(op)};
    mha::Offer offer;
    for (const Policy& each : policies) {
      offer.dtypes.push_back(storage(each));
      offer.contracts.push_back(kernel.contract(each));
    }
    offer.supports = mha::Supports::everything();
    offer.supports.stage_q = offer.supports.stage_k = offer.supports.stage_v = offer.supports.stage_heads =
        kernel.gives_stages;
    info.dtypes = offer.dtypes;
    info.mha = std::move(offer);
  }
};

// ---- subjects -------------------------------------------------------------------------------------------------------

template <class Op>
class BuiltinSubject : public Subject {
 public:
  using Policy = typename Op::Policy;
  using Contract = typename Op::Contract;
  BuiltinSubject(const SubjectInfo& info, const typename Op::Entry& kernel, const std::optional<Policy>& policy,
                 const std::optional<Contract>& semantics)
      : info_(info), kernel_(kernel), policy_(policy), semantics_(semantics) {}

  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }

  std::vector<CallResult> run(std::span<const Call> calls) override {
    if (std::exchange(fresh_, false)) kernels::forget_calls();
    std::vector<CallResult> results;
    for (const Call& call : calls) results.push_back(answer(call.as<typename Op::Abi>()));
    return results;
  }
  bool renew() override { return fresh_ = true; }

 private:
  CallResult answer(const typename Op::Abi& call) const {
    CallResult result;
    const auto start = std::chrono::steady_clock::now();
    try {
      const Format dtype = format_of(dtype_of(Op::first(call).dtype).value());
      Contract contract = kernel_.contract(policy_ ? *policy_ : Op::stored_as(dtype));
      if (semantics_) Op::keep_semantics(*semantics_, contract);
      Op::run(kernel_, call, contract);
    } catch (const std::exception& error) {
      result.status = CallStatus::error;
      result.message = error.what();
    }
    result.elapsed_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  SubjectInfo info_;
  const typename Op::Entry& kernel_;
  std::optional<Policy> policy_;
  std::optional<Contract> semantics_;
  bool fresh_ = true;
};

template <class Op>
class BuiltinFactory : public SubjectFactory {
 public:
  using Policy = typename Op::Policy;
  using Contract = typename Op::Contract;
  BuiltinFactory(std::string_view name, const typename Op::Entry& kernel, const std::optional<Policy>& policy,
                 const std::string& semantics)
      : kernel_(kernel), policy_(policy) {
    if (!semantics.empty()) semantics_ = Op::said(semantics, policy ? *policy : Op::stored_as(Format::f32));
    info_.name = name;
    info_.version = ATTEST_VERSION;
    info_.doc = kernel.doc;
    info_.concurrent = true;
    std::vector<Policy> policies;
    if (policy)
      policies = {*policy};
    else
      policies = {Op::stored_as(Format::f32), Op::stored_as(Format::f16), Op::stored_as(Format::bf16)};
    Op::describe(kernel, std::move(policies), info_);
  }

  [[nodiscard]] const SubjectInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<Subject> open() const override {
    return std::make_unique<BuiltinSubject<Op>>(info_, kernel_, policy_, semantics_);
  }

 private:
  const typename Op::Entry& kernel_;
  std::optional<Policy> policy_;
  std::optional<Contract> semantics_;
  SubjectInfo info_;
};

// ---- names ----------------------------------------------------------------------------------------------------------

template <class Op>
std::vector<ListedSubject> listed(std::string_view prefix, std::span<const typename Op::Entry> kernels) {
  const auto named = [](std::string_view sort, std::string_view name) {
    return std::string(sort) + std::string(name.starts_with(Op::prefix) ? "" : Op::prefix) + std::string(name);
  };
  std::vector<ListedSubject> subjects;
  for (const auto& kernel : kernels)
    subjects.push_back({named(prefix, kernel.name), std::string(kernel.doc),
                        kernel.parent.empty() ? "" : named(builtin_prefix, kernel.parent), std::string(kernel.report),
                        std::string(kernel.family), std::string(kernel.stage)});
  return subjects;
}

template <class Op>
const typename Op::Entry* kernel_named(std::string_view name) {
  const bool correct = name.starts_with(builtin_prefix);
  if (!correct && !name.starts_with(fault_prefix)) return nullptr;
  name.remove_prefix(correct ? builtin_prefix.size() : fault_prefix.size());
  if (!name.starts_with(Op::prefix)) return nullptr;
  return correct ? find_kernel(Op::correct(), name.substr(Op::prefix.size())) : find_kernel(Op::faults(), name);
}

template <class Op>
std::unique_ptr<SubjectFactory> made(std::string_view name, const std::string& policy_text,
                                     const std::string& semantics) {
  const typename Op::Entry* kernel = kernel_named<Op>(name);
  if (kernel == nullptr) return nullptr;
  std::optional<typename Op::Policy> policy;
  if (!policy_text.empty()) policy = Op::read(policy_share(Op::op, policy_text).text);
  return std::make_unique<BuiltinFactory<Op>>(name, *kernel, policy, semantics);
}

}  // namespace

std::vector<std::string_view> builtin_ops() { return {OfAttention::op, OfLayerNorm::op, OfMha::op}; }

std::vector<ListedSubject> builtin_subjects(std::string_view op) {
  if (op == OfLayerNorm::op) return listed<OfLayerNorm>(builtin_prefix, OfLayerNorm::correct());
  if (op == OfMha::op) return listed<OfMha>(builtin_prefix, OfMha::correct());
  if (op.empty() || op == OfAttention::op) return listed<OfAttention>(builtin_prefix, OfAttention::correct());
  return {};
}
std::vector<ListedSubject> fault_subjects(std::string_view op) {
  if (op == OfLayerNorm::op) return listed<OfLayerNorm>(fault_prefix, OfLayerNorm::faults());
  if (op == OfMha::op) return listed<OfMha>(fault_prefix, OfMha::faults());
  if (op.empty() || op == OfAttention::op) return listed<OfAttention>(fault_prefix, OfAttention::faults());
  return {};
}

std::string reference_subject(std::string_view op) {
  for (const ListedSubject& kernel : builtin_subjects(op))
    if (kernel.name.ends_with("explicit")) return kernel.name;
  return {};
}

std::string builtin_op(std::string_view name) {
  if (kernel_named<OfAttention>(name) != nullptr) return std::string(OfAttention::op);
  if (kernel_named<OfLayerNorm>(name) != nullptr) return std::string(OfLayerNorm::op);
  return std::string(kernel_named<OfMha>(name) != nullptr ? OfMha::op : "");
}

std::unique_ptr<SubjectFactory> builtin_subject(std::string_view name, const std::string& policy,
                                                const std::string& semantics) {
  if (auto subject = made<OfAttention>(name, policy, semantics)) return subject;
  if (auto subject = made<OfLayerNorm>(name, policy, semantics)) return subject;
  return made<OfMha>(name, policy, semantics);
}

}  // namespace attest
