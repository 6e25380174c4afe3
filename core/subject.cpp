#include "core/subject.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/field.hpp"

namespace attest {

Supports Supports::everything() {
  Supports all;
  all.bias_types.fill(true);
  all.far = all.null_key = true;
  for (const Field& field : fields())
    if (field.extent) (all.*field.extent).min = 0;
  return all;
}

Contract SubjectInfo::contract(Format dtype, std::span<const FormChoice> forms) const {
  const auto found = std::find(dtypes.begin(), dtypes.end(), dtype);
  if (found == dtypes.end()) {
    throw usage_error(name + " does not offer dtype " + std::string(attest::name(dtype)) + ": it has " +
                      names_of(dtypes));
  }
  const auto index = static_cast<std::size_t>(found - dtypes.begin());
  const FormContract* best = nullptr;
  for (const FormContract& own : form_contracts) {
    const bool chosen = std::ranges::all_of(
        own.forms, [&](const FormChoice& choice) { return std::ranges::count(forms, choice) != 0; });
    if (chosen && (best == nullptr || own.forms.size() > best->forms.size())) best = &own;
  }
  if (best != nullptr) return best->contracts.at(index);
  Contract contract = semantics;
  contract.policy = policies.at(index);
  if (!arithmetic.empty()) contract.arithmetic = arithmetic.at(index);
  return contract;
}

}  // namespace attest
