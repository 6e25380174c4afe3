#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "oracle/attention.hpp"
#include "oracle/element.hpp"
#include "oracle/outcome.hpp"
#include "oracle/quick.hpp"
#include "oracle/row.hpp"
#include "oracle/second_look.hpp"
#include "oracle/statistical.hpp"

namespace attest::oracle {

// The full formulas of one problem, which keep the row that was asked last and the head that it reads.
struct AttentionOracle::Full {
  explicit Full(const AttentionOracle& oracle) : of(oracle), call(oracle.call_) { column.keep_heads(); }

  const AttentionOracle& of;
  const Call& call;
  Row row;
  Column column;
  HeadFacts facts;
  RowSpread spread;
  Index facts_of = -1, row_of = -1, spread_of = -1;
  std::array<RowSpread::Element, lane_count> elements;  // what is asked of the spread, whose memory serves again

  // Of the head that r reads.
  const HeadFacts& facts_for(const RowIndex& r) {
    const Index head = call.head_number(r.b, r.h);
    if (facts_of != head) facts = of.head_known_finite(head) ? HeadFacts{} : head_facts(call, r.b, call.kv_head(r.h));
    facts_of = head;
    return facts;
  }
  Row& at(const RowIndex& r) {
    (void)facts_for(r);
    const Index number = call.row_number(r);
    if (row_of != number) row.evaluate(call, facts, r.b, r.h, r.i);
    row_of = number;
    return row;
  }
  Enclosure out(const RowIndex& r, Index c) { return saturated(column.evaluate(call, at(r), r.b, r.h, c)); }
  Enclosure lse(const RowIndex& r) { return saturated(lse_enclosure_of(call, at(r))); }
  // Toward zero, what overflows may end at the largest finite number: where infinities are permitted, finite values are too.
  [[nodiscard]] Enclosure saturated(Enclosure e) const {
    if (call.numbers.rounding == RoundingMode::directed && e.nonfinite_ok) e.undetermined = true;
    return e;
  }
  // Of `row`, which is r.
  void spread_row(const RowIndex& r) {
    if (spread_of != row_of) spread.evaluate_weights(call, row, r.b, r.h, r.i);
    spread_of = row_of;
  }
  // Whether T says nothing of any element of a row.
  bool left_out(const RowIndex& r) {
    const Row& the_row = at(r);
    if (the_row.kind != RowKind::ordinary || the_row.score_lost || !of.has_statistics_) return true;
    spread_row(r);
    return !spread.applies || spread.by_box || shares_largest_weight(call.numbers, the_row.a2, the_row.z_max);
  }
  // Evaluates an element, whose reference becomes y, for the statistical tier: false if that says nothing of it, or of `got` where it
  // is given.
  bool element_at(const RowIndex& r, Index c, double& y, RowSpread::Element& element,
                  double got = std::numeric_limits<double>::quiet_NaN()) {
    Row& the_row = at(r);
    if (the_row.kind != RowKind::ordinary || the_row.score_lost || (the_row.zero_ok && got == 0) || !of.has_statistics_)
      return false;
    spread_row(r);
    if (!spread.applies) return false;
    if (const std::optional<double> mean = column.mean(call, the_row, r.b, r.h, c)) {
      y = *mean;
    } else {
      const Enclosure rigorous = out(r, c);
      if (rigorous.expect != Expect::number || rigorous.undetermined) return false;
      y = rigorous.y;
    }
    spread.evaluate_sums(call, the_row);
    RowSpread::element(the_row, column, y, element);
    return true;
  }
  std::optional<Spread> spread_at(const RowIndex& r, Index c, double& y,
                                  double got = std::numeric_limits<double>::quiet_NaN()) {
    if (!element_at(r, c, y, elements[0], got)) return {};
    const Spread at = spread.of(call, row, elements[0]);
    if (!std::isfinite(at.s + at.bias)) return {};  // a value that a narrower operand makes infinite
    return at;
  }
  // Whether lambda_needed() says nothing of any element of a row.
  bool has_no_spread(const RowIndex& r) {
    const Row& the_row = at(r);
    if (the_row.kind != RowKind::ordinary || the_row.score_lost) return true;
    spread_row(r);
    return !spread.applies;
  }
  // Whether it says no more than `lambda`, or nothing: most often seen at a small part of its cost.
  bool needs_at_most(const RowIndex& r, Index c, const Rounding& round, double got, double lambda) {
    const Row& the_row = at(r);
    spread.evaluate_sums(call, the_row);
    if (column.look_at(call, the_row, r.b, r.h, c) && spread.surely_holds(call, the_row, column, lambda, round, got))
      return true;
    double y;
    const std::optional<Spread> at = spread_at(r, c, y, got);
    return !at || spread.holds(row, column, y, *at, lambda, round, got);
  }
  static Quick::Weights weights(const Row& row, const Row::Box& box) { return {row.keys, row.p, box.lo, box.hi}; }
  // Has `quick` accept what it surely may of its row n, which is r.
  void accept_means(Quick& quick, Index n, const RowIndex& r) {
    if (!quick.holds_values()) return;
    Row& the_row = at(r);
    if (const Row::Box* const box = box_inside(call, the_row, quick.largest_value()))
      quick.accept_means(n, weights(the_row, *box));
  }
  // Has it find elements near that surely need no more than `lambda`, of a row that has a spread. Whether it found any.
  bool find_near_by_means(Quick& quick, Index n, const RowIndex& r, double lambda) {
    const Row& the_row = at(r);
    spread_row(r);
    return spread.by_box && facts.v_finite && !call.numbers.operand_rounds && quick.holds_values() &&
           quick.find_near_by_means(n, weights(the_row, spread.box(the_row, lambda)));
  }
  // What AttentionOracle::lambda_needed says.
  double lambda_needed(const RowIndex& r, Index c, const Rounding& round, double got) {
    double y;
    const std::optional<Spread> at = spread_at(r, c, y, got);
    if (!at) return std::numeric_limits<double>::quiet_NaN();
    return spread.least_lambda(row, column, y, *at, round, got);
  }
  // Of elements of one row, lane_count at most: the squares of error / s, by the whole of s; no_square of those that T leaves out.
  void squares(const Tensor& out, const RowIndex& r, std::span<const Index> columns, std::span<double> to) {
    const Format type = format_of(out.dtype());
    struct Asked {
      std::size_t at;
      double got, y;
    };
    std::array<Asked, lane_count> asked;
    std::size_t found = 0;
    for (std::size_t n = 0; n < columns.size(); ++n) {
      to[n] = no_square;
      const double got = out.at(r.b, r.h, r.i, columns[n]);
      if (!std::isfinite(got) || left_out(r)) continue;
      double y;
      if (element_at(r, columns[n], y, elements[found], got)) asked[found++] = {n, got, y};
    }
    std::array<Spread, lane_count> spreads;
    spread.of(call, row, std::span(elements).first(found), std::span(spreads).first(found));
    for (std::size_t k = 0; k < found; ++k) {
      const auto& [n, got, y] = asked[k];
      const Spread& at = spreads[k];
      if (!std::isfinite(at.s + at.bias)) continue;
      const double error = std::max(0.0, std::fabs(got - y) - at.bias);
      const double half_ulp = std::max(std::fabs(y) * unit_roundoff(type), half_smallest_subnormal(type));
      const double unit = std::hypot(at.s, half_ulp / std::sqrt(3.0));
      to[n] = (error / unit) * (error / unit);
    }
  }
  // Whether the row's flags alone leave `got` undetermined, whatever its column.
  bool undetermined_by_row(const RowIndex& r, double got) {
    const Row& the_row = at(r);
    return the_row.kind == RowKind::ordinary && facts.v_finite &&
           (std::isfinite(got) ? the_row.finite_undetermined : the_row.nonfinite_ok);
  }
};

}  // namespace attest::oracle
