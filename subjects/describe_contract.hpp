#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "subjects/describe_values.hpp"

namespace attest::describing {

// Reads `contract` of describe, whatever the operation. `Words` are the operation's: its Policy, its Contract and its
// stages, policy_from_text() and contract_from_json() of a dtype. The result goes into an object that has the members
// `dtypes` (which are read), `policies`, `policy_declared`, `semantics` and `arithmetic`, as SubjectInfo has them for
// attention. `at` is the contract's place: "contract", or "contract.layer_norm". All throw Error(usage) that names the
// key.

// The policy of one dtype as a contract states it.
struct PolicyText {
  std::string text, key;
  bool of_this_dtype;  // and of no other: it must store it
};
// One entry a dtype; nullopt where it says nothing.
std::vector<std::optional<PolicyText>> policy_texts(const json& contract, const std::string& at,
                                                    std::span<const Format> dtypes);
// Throws if a number is said of a dtype that is none of these.
void require_dtypes(const json& contract, const std::string& at, std::span<const Format> dtypes);

// The policy of each dtype. One that has none, or one of another storage format, gets the most that a correct kernel of
// this storage format may round: every stage in it.
template <class Words, class Info>
void read_policies(const json& contract, const std::string& at, Info& info) {
  using Policy = typename Words::Policy;
  const auto texts = policy_texts(contract, at, info.dtypes);
  info.policy_declared = true;
  for (std::size_t n = 0; n < info.dtypes.size(); ++n) {
    std::optional<Policy> policy;
    if (texts[n]) policy = Words::policy_from_text(texts[n]->text);
    if (policy && (*policy)[Words::Stage::storage] != info.dtypes[n]) {
      if (texts[n]->of_this_dtype) reject(texts[n]->key, "a policy that stores " + std::string(name(info.dtypes[n])));
      policy.reset();
    }
    info.policies.push_back(policy.value_or(Policy(info.dtypes[n])));
    if (!policy) info.policy_declared = false;
  }
}

// Policies, and everything else: numbers may differ between dtypes, semantics may not.
template <class Words, class Info>
void read_contract(const json& contract, const std::string& at, Info& info) {
  read_policies<Words>(contract, at, info);
  require_dtypes(contract, at, info.dtypes);
  for (std::size_t n = 0; n < info.dtypes.size(); ++n) {
    auto of_dtype = Words::contract_from_json(contract, info.dtypes[n], info.policies[n]);
    info.arithmetic.push_back(of_dtype.arithmetic);
    of_dtype.policy = typename Words::Policy(info.dtypes.front());
    of_dtype.arithmetic = info.arithmetic.front();
    if (info.arithmetic.size() == 1) info.semantics = of_dtype;
    if (!(of_dtype == info.semantics))
      throw usage_error(fmt::format("'{}' differs between dtypes in more than its policy and its numbers", at));
  }
}

}  // namespace attest::describing
