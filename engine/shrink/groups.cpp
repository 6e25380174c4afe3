// What the field table says of shrinking.
#include <algorithm>

#include "core/field.hpp"
#include "engine/shrink/candidates.hpp"

namespace attest::engine {

Problem reset(Problem p, FieldGroup group) {
  static const Problem defaults;
  for (const Field& field : fields()) {
    // Origins key the values.
    if (field.group != group && !(group == FieldGroup::values && field.group == FieldGroup::origin)) continue;
    copy_field(field, defaults, p);
    if (field.reset_to) field.set(p, *field.reset_to);
  }
  if (group == FieldGroup::forms) p.forms.clear();
  if (group == FieldGroup::values) p.edits.clear();
  return p;
}

bool adds_option(const Problem& from, const Problem& to) noexcept {
  for (const Field& field : fields())
    if (field.options && (field.options(field, to) & ~field.options(field, from)) != 0) return true;
  return std::ranges::any_of(
      to.forms, [&](const FormChoice& form) { return std::ranges::find(from.forms, form) == from.forms.end(); });
}

}  // namespace attest::engine
