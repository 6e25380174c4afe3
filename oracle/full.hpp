#pragma once
#include <cmath>

#include "oracle/attention.hpp"
#include "oracle/element.hpp"
#include "oracle/quick.hpp"
#include "oracle/row.hpp"

namespace attest::oracle {

// The full formulas of one problem, which keep the row that was asked last and the head that it reads.
struct AttentionOracle::Full {
  explicit Full(const AttentionOracle& oracle) : of(oracle), call(oracle.call_) { column.keep_heads(); }

  const AttentionOracle& of;
  const Call& call;
  Row row;
  Column column;
  HeadFacts facts;
  Index facts_of = -1, row_of = -1;

  // Returns the facts of the head that r reads.
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
  // Widens an enclosure under rounding toward zero: an overflow may end at the largest finite number there, so finite
  // values are permitted wherever infinities are.
  [[nodiscard]] Enclosure saturated(Enclosure e) const {
    if (call.numbers.rounding == RoundingMode::directed && e.nonfinite_ok) e.undetermined = true;
    return e;
  }
  // Has `quick` accept what it surely may of its row n, which is r.
  void accept_means(Quick& quick, Index n, const RowIndex& r) {
    if (!quick.holds_values()) return;
    Row& the_row = at(r);
    if (const Row::Box* const box = box_inside(call, the_row, quick.largest_value()))
      quick.accept_means(n, {the_row.keys, the_row.p, box->lo, box->hi});
  }
  // Tells whether the row's flags alone leave `got` undetermined, whatever its column.
  bool undetermined_by_row(const RowIndex& r, double got) {
    const Row& the_row = at(r);
    return the_row.kind == RowKind::ordinary && facts.v_finite &&
           (std::isfinite(got) ? the_row.finite_undetermined : the_row.nonfinite_ok);
  }
};

}  // namespace attest::oracle
