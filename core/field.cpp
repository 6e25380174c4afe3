#include "core/field.hpp"

#include <algorithm>
#include <array>
#include <bit>

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

double number_of(const Field& field, const Problem& problem) {
  if (field.in_effect) return field.in_effect(problem);
  if (field.kind == FieldKind::real) return field.get_real(problem).value_or(0);
  if (field.kind == FieldKind::seed) return static_cast<double>(std::bit_cast<std::uint64_t>(field.get(problem)));
  return static_cast<double>(field.get(problem));
}

bool is_default(const Field& field, const Problem& problem) noexcept {
  static const Problem defaults;
  return field.get(problem) == field.get(defaults) && field.get_real(problem) == field.get_real(defaults);
}

void copy_field(const Field& field, const Problem& from, Problem& to) {
  field.set(to, field.get(from));
  field.set_real(to, field.get_real(from));
}

}  // namespace attest
