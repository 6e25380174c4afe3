#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "ops/problem.hpp"

namespace attest::ops {

// A row of an operation's field table (core/field.hpp), for problems of any operation.
struct Field : FieldFacts {
  std::function<Index(const Problem&)> get;
  std::function<void(Problem&, Index)> set;
  std::function<std::optional<double>(const Problem&)> get_real;
  std::function<void(Problem&, std::optional<double>)> set_real;
  std::function<double(const Problem&)> number;     // in effect: labels by index, flags 0 or 1
  std::function<bool(const Problem&)> used;         // whether it means anything there
  std::function<bool(const Problem&, Index)> idle;  // as FieldRow::idle
  std::function<unsigned(const Problem&)> options;  // empty where it is no option
  std::function<std::string(const Problem&)> word;  // empty where buckets say nothing of it
  std::function<bool(const Problem&)> is_default;
  std::function<void(const Problem& from, Problem& to)> copy;
};

inline bool same_value(const Field& field, const Problem& a, const Problem& b) {
  return field.get(a) == field.get(b) && field.get_real(a) == field.get_real(b);
}

// `row` must outlive what is made of it.
template <class P, class S>
Field erased(const FieldRow<P, S>& row) {
  using Row = FieldRow<P, S>;
  Field field{static_cast<const FieldFacts&>(row), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  field.get = [&row](const Problem& p) { return row.get(p.as<P>()); };
  field.set = [&row](Problem& p, Index value) { row.set(p.as<P>(), value); };
  field.get_real = [&row](const Problem& p) { return row.get_real(p.as<P>()); };
  field.set_real = [&row](Problem& p, std::optional<double> value) { row.set_real(p.as<P>(), value); };
  field.number = [&row](const Problem& p) { return number_of(row, p.as<P>()); };
  field.used = [&row](const Problem& p) { return row.used == nullptr || row.used(p.as<P>()); };
  field.idle = [&row](const Problem& p, Index step) { return row.idle != nullptr && row.idle(p.as<P>(), step); };
  if (row.options) field.options = [&row](const Problem& p) { return row.options(row, p.as<P>()); };
  if (row.word) field.word = [&row](const Problem& p) { return row.word(row, p.as<P>()); };
  field.is_default = [&row](const Problem& p) { return attest::is_default(row, p.as<P>()); };
  field.copy = [&row](const Problem& from, Problem& to) { copy_field(row, from.as<P>(), to.as<P>()); };
  static_assert(std::is_base_of_v<FieldFacts, Row>);
  return field;
}
template <class P, class S>
std::vector<Field> erased(std::span<const FieldRow<P, S>> rows) {
  std::vector<Field> all;
  for (const FieldRow<P, S>& row : rows) all.push_back(erased(row));
  return all;
}

}  // namespace attest::ops
