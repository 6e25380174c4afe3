// A policy, as in --policy and describe: of every operation, and what each takes of one text.
#include <optional>

#include "core/layer_norm/policy.hpp"
#include "core/mha/contract.hpp"
#include "core/policy.hpp"
#include "core/policy_stages.hpp"
#include "fuzz/target.hpp"

using namespace attest;

namespace {

// Tells whether it is read; what is read is written and read again.
template <class Read, class Write>
bool comes_back(Read read, Write write, std::string_view text) {
  std::optional<decltype(read(text))> policy;
  if (!fuzz::accepts([&] { policy = read(text); })) return false;
  fuzz::require(read(write(*policy)) == *policy, "the policy does not come back: " + write(*policy));
  return true;
}

template <class Read, class Write>
void try_operation(std::string_view op, Read read, Write write, std::string_view text) {
  const bool whole = comes_back(read, write, text);
  const PolicyShare share = policy_share(op, text);
  // A text that the operation takes as it stands is its own from end to end.
  fuzz::require(!whole || (share.elsewhere.empty() && share.text == text), "part of a policy was taken for another's");
  comes_back(read, write, share.text);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::as_text(data, size);
  try_operation(
      "attention", [](std::string_view t) { return policy_from_text(t); },
      [](const Policy& policy) { return to_text(policy); }, text);
  try_operation(
      "layer_norm", [](std::string_view t) { return layer_norm::policy_from_text(t); },
      [](const layer_norm::Policy& policy) { return to_text(policy); }, text);
  try_operation(
      "mha", [](std::string_view t) { return mha::policy_from_text(t); },
      [](const mha::Policy& policy) { return to_text(policy); }, text);
  return 0;
}
