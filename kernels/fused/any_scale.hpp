#pragma once
#include <string>
#include <vector>

#include "core/forms.hpp"
#include "kernels/fused/clean.hpp"
#include "kernels/fused/variants.hpp"

// A fused kernel that is told where the scale goes, by the form `scale`: into the score, the queries or the keys.
namespace attest::kernels {

inline const std::vector<FormOffer>& any_scale_forms() {
  static const std::vector<FormOffer> forms{{"scale", {"score", "query", "key"}}};
  return forms;
}

inline std::string where_the_scale_goes(const attest_attention& attention) {
  std::vector<FormChoice> chosen;
  if (attention.form != nullptr) chosen = forms_from_json_text(attention.form);
  return form_value(any_scale_forms().front(), chosen);
}

inline Contract any_scale_contract(const Policy& policy) {
  Contract contract = fused_contract<CleanSteps>(policy);
  contract.arithmetic.fold_q = contract.arithmetic.fold_k = true;
  return contract;
}

// `Query` takes the calls whose scale goes into the queries.
template <class Query>
void any_scale_attention(const attest_attention& attention, const Contract& contract) {
  const std::string where = where_the_scale_goes(attention);
  if (where == "query") return fused_attention<Query>(attention, contract);
  if (where == "key") return fused_attention<ScaledKeySteps>(attention, contract);
  clean_attention(attention, contract);
}

}  // namespace attest::kernels
