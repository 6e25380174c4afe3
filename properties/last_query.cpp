// last-query: the last query alone gives the last row.
//
// A call with a single query, as in decoding. bottom_right keeps the diagonal where it is; a diagonal of top_left is
// written out as a keep mask. Catches what a path for single queries forgets: masks, windows, heads, the scale.
#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

bool falls_with_queries(const Problem& p) { return has_diagonal(p) && p.align == Align::top_left; }

Reason last_query_not_applicable(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  if (p.lq == 1 || !info.supports.lq.offers(1)) return "no fewer queries to ask for";
  return falls_with_queries(p) ? no_explicit_mask(p, info) : std::nullopt;
}

Verdict check_last_query(Trial& trial) {
  Derived derived = falls_with_queries(trial.problem()) ? with_explicit_mask(trial, Said::diagonal) : copy_of(trial);
  Problem& p = derived.problem;
  Inputs& inputs = derived.inputs;
  const Index last = p.lq - 1;
  const auto last_row = [=](std::array<Index, 4> at) {
    at[2] = last;
    return at;
  };
  inputs.q = picked_rows(inputs.q, p.q_layout, {p.b, p.hq, 1, p.d}, last_row);
  inputs.keep = picked_rows(inputs.keep, p.mask_layout, {p.b, p.hq, 1, p.lk}, last_row);
  inputs.bias = picked_rows(inputs.bias, p.mask_layout, {p.b, p.hq, 1, p.lk}, last_row);
  p.lq = 1;
  return agreement(trial, derived, "the last query alone", last_row);
}

}  // namespace

Property last_query() {
  return {"last-query",
          "f(q, k, v)[.., Lq-1, :] = f(q[.., Lq-1, :], k, v) within both radii",
          "the last query asked for alone, as in decoding, gives the same row",
          Kind::bound,
          last_query_not_applicable,
          check_last_query};
}

}  // namespace attest::properties
