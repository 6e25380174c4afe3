// A policy, as in --policy and describe.
#include "core/policy.hpp"

#include "fuzz/target.hpp"

using namespace attest;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Policy policy;
  if (!fuzz::accepts([&] { policy = policy_from_text(fuzz::as_text(data, size)); })) return 0;
  fuzz::require(policy_from_text(to_text(policy)) == policy, "the policy does not come back: " + to_text(policy));
  return 0;
}
