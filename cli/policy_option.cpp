#include "cli/policy_option.hpp"

#include <iostream>
#include <string>
#include <vector>

namespace attest::cli {

Option policy_option() {
  return {"policy", "NAME|STAGE=FORMAT,...", "precision policy; fixes the dtype to its storage format"};
}

std::optional<ops::Policy> read_policy(const Settings& settings, const ops::Op& op) {
  const auto text = settings.text("policy");
  if (!text) return std::nullopt;
  std::vector<std::string> elsewhere;
  const ops::Policy policy = ops::policy_asked(op, *text, &elsewhere);
  for (const std::string& sentence : elsewhere) std::cerr << "attest: " << sentence << "\n";
  return policy;
}

}  // namespace attest::cli
