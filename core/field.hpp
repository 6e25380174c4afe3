#pragma once
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

// What a field is a part of. Those of one group mean little to the others: the shrinker resets them together. `forms` has no
// field: they are Problem::forms.
enum class FieldGroup : std::uint8_t { shape, format, scaling, masks, layouts, outputs, forms, values, origin };
std::string_view name(FieldGroup group) noexcept;

// All that the house knows of one field of a problem. Text, JSON, generators, shrinker, buckets and learned conditions walk the
// table of these rows; what a field means is said in the explicit kernel, the oracle and the certificate.
struct Field {
  std::string_view name;
  FieldKind kind = FieldKind::integer;
  FieldGroup group = FieldGroup::shape;
  std::string_view doc;

  // ---- what it may be, and how a line says it
  Index lo = 0, hi = 0;                      // integers, labels (index into labels) and flags
  std::span<const std::string_view> labels;  // of a label field
  bool always_printed = false;
  std::string_view joined_to;              // printed behind that field's value after a colon
  Index (*get)(const Problem&) = nullptr;  // integer, label, flag, seed (bit pattern)
  void (*set)(Problem&, Index) = nullptr;
  std::optional<double> (*get_real)(const Problem&) = nullptr;
  void (*set_real)(Problem&, std::optional<double>) = nullptr;
  double (*in_effect)(const Problem&) = nullptr;  // of a real that may be absent: what stands in its place then
  bool (*used)(const Problem&) = nullptr;         // whether it means anything there; nullptr: always
  std::string_view origin;  // of an extent: the field that says where this problem begins in the one it was cut from

  // ---- how it is drawn
  bool drawn =
      true;  // within a range that a subject or an assumption may narrow; the others have generators of their own
  std::span<const Index> edges;            // of an integer: values at which kernels tend to break
  std::span<const std::uint16_t> weights;  // by label, flag or number from 0; labels past the end are never drawn
  int share = 0;                           // of an extent: its part of the work, beside the others

  // ---- what `supports` (docs/plugin.md) says of it: of an extent what it may be, of others whether they may differ from
  // their simplest
  std::string_view supports_key;
  bool Supports::*offered = nullptr;
  DimRange Supports::*extent = nullptr;

  // ---- how it shrinks
  Index simplest = 0;  // what the shrinker aims for
  std::span<const Index>
      ladder;  // labels worth trying on the way there, simplest first; those not listed are simpler than none
  bool (*idle)(const Problem&, Index step) = nullptr;  // whether that step would change nothing worth a call
  std::optional<Index> reset_to;                       // with its group: its default where nothing else is said
  // Of what its value stands for, a bit each: what a reproducer may have only if the failing problem has it.
  unsigned (*options)(const Field&, const Problem&) = nullptr;

  // ---- how findings tell of it
  int trait =
      0;  // its place among the traits that a learned condition speaks of, first where merits are equal; 0: none
  int word_place = 0;                                           // the place of its word in a bucket
  std::string (*word)(const Field&, const Problem&) = nullptr;  // empty where a bucket says nothing of it
};

// In print order.
std::span<const Field> fields() noexcept;
const Field* find_field(std::string_view name) noexcept;
// The position of a row in fields().
inline std::size_t position(const Field& row) noexcept { return static_cast<std::size_t>(&row - fields().data()); }

// Its number in effect: labels by index, flags 0 or 1.
double number_of(const Field& field, const Problem& problem);
// Whether the field has the value of a problem that says nothing of it.
bool is_default(const Field& field, const Problem& problem) noexcept;
// The value of another problem.
void copy_field(const Field& field, const Problem& from, Problem& to);

// ---- rows by member ----------------------------------------------------------------------------------------------------

template <auto Member>
Index get_member(const Problem& problem) {
  return static_cast<Index>(problem.*Member);
}
template <auto Member>
std::optional<double> get_real_member(const Problem& problem) {
  return problem.*Member;
}

const Field& row_with(Index (*get)(const Problem&)) noexcept;

// The row of an integer, label or flag: field_of<&Problem::keep>().
template <auto Member>
const Field& field_of() noexcept {
  static const Field& row = row_with(get_member<Member>);
  return row;
}

}  // namespace attest
