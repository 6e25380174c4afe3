// The facts that the field table states about shrinking.
#include <algorithm>

#include "engine/shrink/candidates.hpp"

namespace attest::engine {

bool adds_option(const Problem& from, const Problem& to) noexcept {
  for (const Field& field : to.op().fields())
    if (field.options && (field.options(to) & ~field.options(from)) != 0) return true;
  const auto& had = forms_of(from);
  return std::ranges::any_of(forms_of(to),
                             [&](const FormChoice& form) { return std::ranges::find(had, form) == had.end(); });
}

}  // namespace attest::engine
