// heads-expanded: grouped heads are the key/value heads repeated, one for each query head.
//
// K and V are written out once per query head, head h a copy of the head h / (Hq / Hkv) that it read. The mathematical
// problem is the very same. Catches query heads that read another key/value head.
#include "core/supports.hpp"
#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

Reason heads_expanded_not_applicable(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  if (p.hq == p.hkv) return "heads are not grouped";
  Problem expanded = p;
  expanded.hkv = p.hq;
  if (declined(expanded, info.supports, info.dtypes)) return "the subject takes no such number of heads";
  if (p.b * p.hq * p.lk * (p.d + p.dv) > most_elements) return "too many elements to repeat";
  return std::nullopt;
}

Verdict check_heads_expanded(Trial& trial) {
  Derived derived = copy_of(trial);
  Problem& p = derived.problem;
  const Inputs& from = trial.inputs();
  const Index group = p.group();
  const auto head_read = [=](std::array<Index, 4> at) {
    at[1] /= group;
    return at;
  };
  derived.inputs.k = picked_rows(from.k, p.k_layout, {p.b, p.hq, p.lk, p.d}, head_read);
  derived.inputs.v = picked_rows(from.v, p.v_layout, {p.b, p.hq, p.lk, p.dv}, head_read);
  p.hkv = p.hq;
  trial.base();
  const Result result = trial.run(derived.inputs, p);
  if (result.violation) return Verdict::fail(*result.violation);
  return within_enclosures(trial, result.out, result.lse, "K and V repeated for each query head");
}

}  // namespace

Property heads_expanded() {
  return {"heads-expanded",
          "|f(q, k, v) - f(q, k', v')| <= hi - lo, k'[h] = k[h / group], v' alike",
          "query head h reads key/value head h / (Hq / Hkv)",
          Kind::bound,
          heads_expanded_not_applicable,
          check_heads_expanded,
          Asks::anything,
          Claim::pair};
}

}  // namespace attest::properties
