// duplicated-columns: equal columns of V give equal columns of the output.
//
// V gets other columns: copies of its own in a drawn order, some of them several times, as many as there were or more.
// Each output column has the enclosure of the column it was copied from, since columns do not meet. Catches columns
// that are left out, shifted or treated otherwise: remainders of a vector loop, misread rows, a width taken from q.
#include <vector>

#include "core/supports.hpp"
#include "properties/derive.hpp"
#include "properties/property.hpp"

namespace attest::properties {
namespace {

std::vector<Index> widths(const Problem& p, const SubjectInfo& info) {
  std::vector<Index> widths;
  if (p.dv > 1) widths.push_back(p.dv);
  Problem wider = p;
  for (const Index dv : {p.dv + 1, p.dv / 8 * 8 + 8, 2 * p.dv}) {
    wider.dv = dv;
    const bool fits = p.b * (p.hkv * p.lk + p.hq * p.lq) * dv <= most_elements;
    if (dv > p.dv && dv <= widest && fits && !declined(wider, info.supports, info.dtypes)) widths.push_back(dv);
  }
  return widths;
}

Reason duplicated_columns_not_applicable(const Problem& p, const Contract&, const SubjectInfo& info) {
  if (p.b * p.hq * p.lq * p.dv == 0) return "no output elements";
  if (widths(p, info).empty()) return "the subject takes a single column";
  return std::nullopt;
}

Verdict check_duplicated_columns(Trial& trial) {
  Derived derived = copy_of(trial);
  Problem& p = derived.problem;
  const std::vector<Index> all = widths(p, trial.subject().info());
  const Index dv = all[below(draw(p, 79), all.size())];
  std::vector<Index> source(static_cast<std::size_t>(dv));
  const std::uint64_t key = draw(p, 80);
  for (std::size_t c = 0; c < source.size(); ++c)
    source[c] = static_cast<Index>(below(extend(key, c), static_cast<std::uint64_t>(p.dv)));
  const auto copied = [&](std::array<Index, 4> at) {
    at[3] = source[static_cast<std::size_t>(at[3])];
    return at;
  };
  derived.inputs.v = picked(trial.inputs().v, p.v_layout, {p.b, p.hkv, p.lk, dv}, copied);
  p.dv = dv;
  return agreement(trial, derived, "columns of V copied", copied);
}

}  // namespace

Property duplicated_columns() {
  return {"duplicated-columns",
          "f(q, k, v[:, s]) = f(q, k, v)[:, s] within both radii, s a list of columns",
          "each output column depends on its own column of V alone, wherever that lies",
          Kind::bound,
          duplicated_columns_not_applicable,
          check_duplicated_columns};
}

}  // namespace attest::properties
