// Fuzzes the description that a plug-in or a worker gives of itself, which is then used to draw a problem.
#include "subjects/describe.hpp"

#include <nlohmann/json.hpp>

#include "fuzz/target.hpp"
#include "generators/draw.hpp"

using namespace attest;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  SubjectInfo info;
  const Offer offer{"k", "1", std::string(fuzz::as_text(data, size)), ""};
  if (!fuzz::accepts([&] { info = subject_info(offer, "./plugin.so:k"); })) return 0;
  const bool attention = !info.policies.empty();
  std::vector<Contract> contracts;
  if (attention)
    for (const Format dtype : info.dtypes) contracts.push_back(info.contract(dtype));
  for (const FormContract& own : info.form_contracts)
    contracts.insert(contracts.end(), own.contracts.begin(), own.contracts.end());
  for (const Contract& contract : contracts) {
    const nlohmann::json written = nlohmann::json::parse(to_json(contract).dump());
    fuzz::require(contract_from_json(written, contract.policy) == contract,
                  "the contract does not come back: " + written.dump());
  }
  if (info.mha)
    for (const Format dtype : info.mha->dtypes) {
      const mha::Contract contract = info.mha->contract(dtype, info.name);
      const nlohmann::json written = nlohmann::json::parse(mha::to_json(contract).dump());
      const mha::Policy policy{contract.attention.policy, contract.gemm};
      fuzz::require(mha::contract_from_json(written, policy) == contract,
                    "the contract of mha does not come back: " + written.dump());
    }
  if (info.layer_norm)
    for (const Format dtype : info.layer_norm->dtypes) {
      const layer_norm::Contract contract = info.layer_norm->contract(dtype, info.name);
      const nlohmann::json written = nlohmann::json::parse(layer_norm::to_json(contract).dump());
      fuzz::require(layer_norm::contract_from_json(written, contract.policy) == contract,
                    "the contract of layer_norm does not come back: " + written.dump());
    }
  fuzz::accepts([&] {
    const Domain domain(info.supports, info.dtypes);
    const Problem problem = draw_problem(domain, 1, 0, 1);
    validate(problem);
  });
  return 0;
}
