#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/problem.hpp"

namespace attest {

struct Supports;
struct DimRange;

enum class FieldKind : std::uint8_t { integer, label, flag, real, seed };

// The group that a field belongs to. Fields of one group mean little to the others: the shrinker resets them together.
// `forms` has no field: they are Problem::forms.
enum class FieldGroup : std::uint8_t { shape, format, scaling, masks, layouts, outputs, forms, values, origin };
std::string_view name(FieldGroup group) noexcept;

// The facts of one field of a problem, except how it is read and set.
struct FieldFacts {
  std::string_view name;
  FieldKind kind = FieldKind::integer;
  FieldGroup group = FieldGroup::shape;
  std::string_view doc;

  // ---- what it may be, and how a line says it
  Index lo = 0, hi = 0;                      // integers, labels (index into labels) and flags
  std::span<const std::string_view> labels;  // labels of a label field
  bool always_printed = false;
  std::string_view joined_to;  // printed behind that field's value after a colon
  std::string_view origin;     // for an extent: the field with its begin in the problem it was cut from

  // ---- how it is drawn
  bool drawn =
      true;  // within a range that a subject or an assumption may narrow; the others have generators of their own
  std::span<const Index> edges;            // values of an integer at which kernels tend to break
  std::span<const std::uint16_t> weights;  // by label, flag or number from 0; labels past the end are never drawn
  int share = 0;                           // for an extent: its part of the work, beside the others

  // ---- how it shrinks
  Index simplest = 0;  // the shrinker's target
  std::span<const Index>
      ladder;  // labels worth trying on the way there, simplest first; those not listed are simpler than none
  std::optional<Index> reset_to;  // with its group: its default where nothing else is said

  // ---- how findings tell of it
  int trait =
      0;  // its place among the traits that a learned condition speaks of, first where merits are equal; 0: none
  int word_place = 0;  // the place of its word in a bucket
};

// All facts of one field of an operation's problems P, of which S says what a subject supports. Text, JSON, generators,
// shrinker, buckets and learned conditions walk the table of these rows. The explicit kernel, the oracle and the
// certificate define the meaning of a field.
template <class P, class S>
struct FieldRow : FieldFacts {
  Index (*get)(const P&) = nullptr;  // integer, label, flag, seed (bit pattern)
  void (*set)(P&, Index) = nullptr;
  std::optional<double> (*get_real)(const P&) = nullptr;
  void (*set_real)(P&, std::optional<double>) = nullptr;
  double (*in_effect)(const P&) = nullptr;  // value in effect of a real that may be absent
  bool (*used)(const P&) = nullptr;         // whether it has a meaning there; nullptr: always

  // The key in `supports` (docs/plugin.md) about it: for an extent its permitted range, for others whether they may
  // differ from their simplest value.
  std::string_view supports_key;
  bool S::*offered = nullptr;
  DimRange S::*extent = nullptr;

  bool (*idle)(const P&, Index step) = nullptr;  // whether that step of the ladder would change nothing worth a call
  // The options that its value sets, a bit each. A reproducer may have them only if the failing problem has them.
  unsigned (*options)(const FieldRow&, const P&) = nullptr;
  std::string (*word)(const FieldRow&, const P&) = nullptr;  // its word in a bucket; empty where it has none
};
using Field = FieldRow<Problem, Supports>;

// The fields in print order.
std::span<const Field> fields() noexcept;
const Field* find_field(std::string_view name) noexcept;
// The position of a row in fields().
inline std::size_t position(const Field& row) noexcept { return static_cast<std::size_t>(&row - fields().data()); }

// Returns its number in effect: labels by index, flags 0 or 1.
template <class P, class S>
double number_of(const FieldRow<P, S>& field, const P& problem) {
  if (field.in_effect) return field.in_effect(problem);
  if (field.kind == FieldKind::real) return field.get_real(problem).value_or(0);
  if (field.kind == FieldKind::seed) return static_cast<double>(std::bit_cast<std::uint64_t>(field.get(problem)));
  return static_cast<double>(field.get(problem));
}
// Tells whether the field has the value of a problem that says nothing of it.
template <class P, class S>
bool is_default(const FieldRow<P, S>& field, const P& problem) noexcept {
  static const P defaults;
  return field.get(problem) == field.get(defaults) && field.get_real(problem) == field.get_real(defaults);
}
// The value of another problem.
template <class P, class S>
void copy_field(const FieldRow<P, S>& field, const P& from, P& to) {
  field.set(to, field.get(from));
  field.set_real(to, field.get_real(from));
}

// ---- rows by member -------------------------------------------------------------------------------------------------

template <auto Member, class P = Problem>
Index get_member(const P& problem) {
  return static_cast<Index>(problem.*Member);
}

const Field& row_with(Index (*get)(const Problem&)) noexcept;

// The row of an integer, label or flag: field_of<&Problem::keep>().
template <auto Member>
const Field& field_of() noexcept {
  static const Field& row = row_with(get_member<Member>);
  return row;
}

}  // namespace attest
