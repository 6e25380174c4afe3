#include "core/field.hpp"

#include <algorithm>
#include <array>

#include "core/attention/fields.hpp"

namespace attest {

std::span<const Field> fields() noexcept { return attention_fields(); }

const Field* find_field(std::string_view name) noexcept {
  const auto all = fields();
  const auto found = std::ranges::find(all, name, &Field::name);
  return found == all.end() ? nullptr : &*found;
}

const Field& row_with(Index (*get)(const Problem&)) noexcept { return *std::ranges::find(fields(), get, &Field::get); }

std::string_view name(FieldGroup group) noexcept {
  constexpr auto names = std::to_array<std::string_view>(
      {"shape", "format", "scaling", "masks", "layouts", "outputs", "forms", "values", "origin"});
  return names[static_cast<std::size_t>(group)];
}

}  // namespace attest
