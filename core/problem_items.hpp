#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/field.hpp"
#include "core/number_text.hpp"

// The line of key=value and the JSON of a problem of an operation whose edits are texts: items, and the values of its
// fields.
namespace attest {

// Calls `item` with each key and its value. Throws Error(usage) for what is none, and for a key that is given twice.
void read_problem_line(std::string_view line,
                       const std::function<void(std::string_view key, std::string_view value)>& item);

// Reads a problem in JSON: calls `item` with each key and its value as the problem's line has it, and `edit` with each
// of an array of edits, of which `example` is one. Throws Error(usage) for any other value.
void read_problem_items(const nlohmann::json& object, std::string_view example,
                        const std::function<void(std::string_view key, const std::string& value)>& item,
                        const std::function<void(const std::string& text)>& edit);

// A field, its value as a line has it, and its number if it is no real.
struct ProblemItem {
  const FieldFacts* field;
  std::string value;
  Index number = 0;
};
// The same as JSON: integers, flags and seeds as what they are, all else as the text. No `edits` where there are none.
nlohmann::ordered_json problem_json(std::string_view op, const std::vector<ProblemItem>& items,
                                    const std::vector<std::string>& edits);

// A field's value as a line has it, by the field's kind; nullopt where the text is none that the field may have.
std::optional<Index> field_value(const FieldFacts& field, std::string_view text);
std::string field_text(const FieldFacts& field, Index value);
// Throws Error(usage): "problem: rows=0 must be an integer in 1..65536".
[[noreturn]] void refuse_field_value(const FieldFacts& field, std::string_view text);

template <class Row, class P>
std::string value_text(const Row& field, const P& problem) {
  if (field.kind != FieldKind::real) return field_text(field, field.get(problem));
  const std::optional<double> real = field.get_real(problem);
  return real ? hex_float(*real) : "default";
}

template <class Row, class P>
void read_value(const Row& field, P& problem, std::string_view text) {
  if (field.kind == FieldKind::real) {
    const auto real = parse_double(text);
    if (!real || !std::isfinite(*real)) refuse_field_value(field, text);
    field.set_real(problem, real);
  } else {
    const auto value = field_value(field, text);
    if (!value) refuse_field_value(field, text);
    field.set(problem, *value);
  }
}

}  // namespace attest
