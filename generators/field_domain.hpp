#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/field.hpp"
#include "generators/domain.hpp"
#include "generators/models.hpp"

namespace attest {

// The problems of an operation that may be drawn, as in generators/domain.hpp for attention: the range of each field of
// its table, and predicates. P: its problem, S: what a subject supports of it, `fields`: its table.
template <class P, class S, std::span<const FieldRow<P, S>> (*fields)() noexcept>
class FieldDomain : public Sized {
 public:
  using Field = FieldRow<P, S>;

  // Tells whether narrow() takes this field.
  [[nodiscard]] static bool narrows(std::string_view field) noexcept {
    const auto row = std::ranges::find(fields(), field, &Field::name);
    return row != fields().end() && row->drawn && row->kind != FieldKind::real && row->kind != FieldKind::seed;
  }
  // Throws Error(usage) if the field is not drawn, or if nothing is left.
  void narrow(std::string_view field, Index lo, Index hi) {
    if (!narrows(field)) throw usage_error(fmt::format("'{}' is no field that can be narrowed", field));
    Range& range = of(field);
    range = intersect(range, {lo, hi});
    if (!is_left(row(field))) throw usage_error(fmt::format("no value of {} is left", field));
  }
  void assume(std::function<bool(const P&)> predicate) { predicates_.push_back(std::move(predicate)); }
  [[nodiscard]] bool accepts(const P& problem) const {
    return std::ranges::all_of(predicates_, [&](const auto& holds) { return holds(problem); });
  }

  // Returns the range of a drawn field.
  [[nodiscard]] const Range& range(const Field& field) const noexcept {
    return ranges_[static_cast<std::size_t>(&field - fields().data())];
  }
  [[nodiscard]] const Range& range(std::string_view field) const noexcept { return range(row(field)); }
  [[nodiscard]] const S& supports() const noexcept { return supports_; }
  [[nodiscard]] const std::vector<Format>& dtypes() const noexcept { return dtypes_; }

 protected:
  // All that the subject takes of each field alone.
  FieldDomain(const S& supports, std::vector<Format> dtypes) : supports_(supports), dtypes_(std::move(dtypes)) {
    for (const Field& field : fields()) {
      Range range{field.lo, field.hi};
      if (field.extent) {
        const DimRange& dim = supports.*field.extent;
        range = intersect(range, {dim.min, dim.max, dim.step()});
      }
      if (field.offered && !(supports.*field.offered)) range.hi = field.lo;
      ranges_.push_back(range);
    }
  }
  FieldDomain(const FieldDomain&) = default;
  FieldDomain(FieldDomain&&) = default;
  FieldDomain& operator=(const FieldDomain&) = default;
  FieldDomain& operator=(FieldDomain&&) = default;
  virtual ~FieldDomain() = default;

  // Throws Error(usage) if that leaves no problem at all. `op`: the operation's name.
  void check(std::string_view op) const {
    if (dtypes_.empty()) throw usage_error(fmt::format("the subject offers no dtype for {}", op));
    for (const Field& field : fields())
      if (field.drawn && !is_left(field))
        throw usage_error(fmt::format("what the subject supports of {} leaves no value of {}", op, field.name));
  }
  // Tells whether the subject takes some value that is left of it.
  [[nodiscard]] virtual bool is_left(const Field& field) const { return !range(field).empty(); }
  Range& of(std::string_view field) noexcept {
    return ranges_[static_cast<std::size_t>(&row(field) - fields().data())];
  }

 private:
  // A row that is there.
  static const Field& row(std::string_view field) noexcept { return *std::ranges::find(fields(), field, &Field::name); }

  S supports_;
  std::vector<Format> dtypes_;
  std::vector<Range> ranges_;  // by the position of the field
  std::vector<std::function<bool(const P&)>> predicates_;
};

// A problem, and how many the domain's predicates turned away before it.
template <class P>
struct DrawingOf {
  P problem;
  std::uint64_t rejected = 0;
};

}  // namespace attest
