#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/field.hpp"
#include "core/format.hpp"

namespace attest {

// The formats to which a problem simplifies: not f64, which is slow to compute in.
inline constexpr auto dtype_steps = [] {
  std::array<Index, below_f64.size()> steps{};
  for (std::size_t n = 0; n < steps.size(); ++n) steps[n] = static_cast<Index>(below_f64[n]);
  return steps;
}();

// The builder of the field table of an operation with problems P, of which S says what a subject supports: a row begins
// as one of the kinds below, and every part adds one fact. It is for field tables alone.
template <class P, class S>
struct FieldRows {
  using Field = FieldRow<P, S>;
  using Label = std::string_view;
  using Weight = std::uint16_t;

  static unsigned given(const Field& field, const P& problem) { return is_default(field, problem) ? 0 : 1; }

  // The word of field NAME_layout, whose labels are those of the enumeration Layout: "strided-NAME" where the layout is
  // not contiguous.
  template <class Layout>
  static std::string layout_word(const Field& field, const P& problem) {
    const auto layout = static_cast<Layout>(field.get(problem));
    if (layout == Layout::contiguous) return {};
    const std::string tensor(field.name.substr(0, field.name.find('_')));
    return (layout == Layout::odd_base    ? "unaligned-"
            : layout == Layout::broadcast ? "broadcast-"
                                          : "strided-") +
           tensor;
  }

  struct Row : Field {
    constexpr Row with(auto column, auto value) const {
      Row row = *this;
      row.*column = value;
      return row;
    }
    constexpr Row printed() const { return with(&Field::always_printed, true); }
    constexpr Row undrawn() const { return with(&Field::drawn, false); }
    constexpr Row where(bool (*used)(const P&)) const { return with(&Field::used, used); }
    constexpr Row breaks_at(std::span<const Index> edges) const { return with(&Field::edges, edges); }
    // Every label has a weight but the last `unweighted`, which are never drawn.
    constexpr Row weighs(std::span<const Weight> weights, std::size_t unweighted = 0) const {
      if (!this->labels.empty() && weights.size() + unweighted != this->labels.size()) throw "a label has no weight";
      return with(&Field::weights, weights);
    }
    constexpr Row supported(Label key, bool S::*offered) const {
      return with(&Field::supports_key, key).with(&Field::offered, offered);
    }
    constexpr Row simplifies(std::span<const Index> ladder) const { return with(&Field::ladder, ladder); }
    constexpr Row option(unsigned (*options)(const Field&, const P&) = given) const {
      return with(&Field::options, options);
    }
    constexpr Row told(int trait) const { return with(&Field::trait, trait); }
    constexpr Row worded(int place, std::string (*word)(const Field&, const P&)) const {
      return with(&Field::word_place, place).with(&Field::word, word);
    }
  };

  static constexpr Row row(Label name, FieldKind kind, FieldGroup group, Label doc) {
    Row row;
    row.name = name;
    row.kind = kind;
    row.group = group;
    row.doc = doc;
    row.get = [](const P&) { return Index{0}; };
    row.set = [](P&, Index) {};
    row.get_real = [](const P&) { return std::optional<double>(); };
    row.set_real = [](P&, std::optional<double>) {};
    return row;
  }
  template <auto Member>
  static constexpr Row integer(Label name, FieldGroup group, Index lo, Index hi, Index simplest, Label doc) {
    return numbered<Member>(name, FieldKind::integer, group, doc)
        .with(&Field::lo, lo)
        .with(&Field::hi, hi)
        .with(&Field::simplest, simplest);
  }
  template <auto Member>
  static constexpr Row label(Label name, FieldGroup group, std::span<const Label> labels, auto simplest, Label doc) {
    return numbered<Member>(name, FieldKind::label, group, doc)
        .with(&Field::hi, static_cast<Index>(labels.size()) - 1)
        .with(&Field::labels, labels)
        .with(&Field::simplest, static_cast<Index>(simplest));
  }
  // One that shrinks to the first of `ladder`.
  template <auto Member>
  static constexpr Row stepped(Label name, FieldGroup group, std::span<const Label> labels,
                               std::span<const Index> ladder, Label doc) {
    return label<Member>(name, group, labels, ladder.front(), doc).simplifies(ladder);
  }
  template <auto Member>
  static constexpr Row flag(Label name, FieldGroup group, Label doc) {
    return numbered<Member>(name, FieldKind::flag, group, doc).with(&Field::hi, Index{1});
  }
  template <auto Member>
  static constexpr Row real(Label name, FieldGroup group, Index simplest, Label doc) {
    return row(name, FieldKind::real, group, doc)
        .with(&Field::simplest, simplest)
        .with(&Field::get_real, [](const P& problem) -> std::optional<double> { return problem.*Member; })
        .with(&Field::set_real, set_real<Member>)
        .undrawn();
  }
  // The bit pattern of an unsigned member.
  template <auto Member>
  static constexpr Row seed(Label name, FieldGroup group, Label doc) {
    return row(name, FieldKind::seed, group, doc)
        .with(&Field::get, [](const P& problem) { return std::bit_cast<Index>(problem.*Member); })
        .with(&Field::set, [](P& problem, Index value) { problem.*Member = std::bit_cast<std::uint64_t>(value); })
        .printed()
        .undrawn();
  }

 private:
  // field_of() of core/field.hpp finds a row by its `get`, which is get_member<Member> therefore.
  template <auto Member>
  static constexpr Row numbered(Label name, FieldKind kind, FieldGroup group, Label doc) {
    return row(name, kind, group, doc).with(&Field::get, get_member<Member, P>).with(&Field::set, set<Member>);
  }
  template <auto Member>
  static void set(P& problem, Index value) {
    problem.*Member = static_cast<std::remove_reference_t<decltype(problem.*Member)>>(value);
  }
  template <auto Member>
  static void set_real(P& problem, std::optional<double> value) {
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(problem.*Member)>, double>)
      problem.*Member = value.value_or(0.0);
    else
      problem.*Member = value;
  }
};

}  // namespace attest
