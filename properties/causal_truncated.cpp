// causal-truncated: the first rows of a causal problem are those of the problem that ends with them.
//
// The last queries go, and with them the keys that only they could see: with top_left keys past the last query, with
// bottom_right as many keys of each sample as queries. The diagonal of the rows that stay, and so their keys, are the
// same. Catches masks that are off by one, or that depend on how many queries or keys follow.
#include <algorithm>

#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

Reason causal_truncated_not_applicable(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (!p.causal) return "not causal";
  if (p.b * p.hq * p.lq * p.lk * p.dv == 0) return "no output elements";
  if (p.lq == 1 || !info.supports.lq.offers(1)) return "no fewer queries to ask for";
  return std::nullopt;
}

Verdict check_causal_truncated(Trial& trial) {
  const Inputs& from = trial.inputs();
  const Supports& supports = trial.subject().info().supports;
  Derived derived = copy_of(trial);
  Problem& p = derived.problem;
  const bool top_left = p.align == Align::top_left;
  Index shortest = p.lk;
  for (Index b = 0; b < p.b && from.kv_lengths.present(); ++b)
    shortest = std::min(shortest, static_cast<Index>(from.kv_lengths.at(b)));

  // The number of queries that stay.
  const Index least = top_left ? 1 : std::max<Index>(1, p.lq - shortest), drawn = p.lq - least;
  if (drawn < 1) return Verdict::skip("a sample has too few keys to cut");
  const Index rows = least + static_cast<Index>(below(draw(p, 71), static_cast<std::uint64_t>(drawn)));
  const Index keys = top_left ? std::min(p.lk, rows) : p.lk - (p.lq - rows);
  if (!supports.lq.offers(rows) || !supports.lk.offers(keys)) return Verdict::skip("the subject takes no such length");

  const auto same = [](std::array<Index, 4> at) { return at; };
  Inputs& to = derived.inputs;
  to.q = picked_rows(from.q, p.q_layout, {p.b, p.hq, rows, p.d}, same);
  to.k = picked_rows(from.k, p.k_layout, {p.b, p.hkv, keys, p.d}, same);
  to.v = picked_rows(from.v, p.v_layout, {p.b, p.hkv, keys, p.dv}, same);
  to.keep = picked_rows(from.keep, p.mask_layout, {p.b, p.hq, rows, keys}, same);
  to.bias = picked_rows(from.bias, p.mask_layout, {p.b, p.hq, rows, keys}, same);
  for (Index b = 0; b < p.b && to.kv_lengths.present(); ++b) {
    const double length = from.kv_lengths.at(b);
    to.kv_lengths.set(
        b, 0, 0, 0, top_left ? std::min(length, static_cast<double>(keys)) : length - static_cast<double>(p.lq - rows));
  }
  p.lq = rows;
  p.lk = keys;
  return agreement(trial, derived, "the problem cut off after these rows");
}

}  // namespace

Property causal_truncated() {
  return {"causal-truncated",
          "f(x)[.., i, :] = f(x')[.., i, :] within both radii, x' = x without later queries and keys, i in x'",
          "a row of a causal problem does not depend on the queries and keys that come later, not even on their number",
          Kind::bound,
          causal_truncated_not_applicable,
          check_causal_truncated};
}

}  // namespace attest::properties
