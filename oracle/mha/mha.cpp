#include "oracle/mha/mha.hpp"

#include <algorithm>

#include "oracle/outcome.hpp"

namespace attest::oracle {

MhaOracle::MhaOracle(const mha::Contract& contract, const mha::Call& call, Index judged)
    : block_(contract, call), names_(ways_of(contract)), ways_(names_.size()) {
  const Index all = call.b() * call.l(), count = judged > 0 ? std::min(judged, all) : all;
  for (Index n = 0; n < count; ++n) rows_.push_back(n * all / count);
}

const Way& MhaOracle::way(std::size_t n) {
  if (!ways_[n]) ways_[n] = std::make_unique<Way>(block_, names_[n].projected, names_[n].heads_rounded);
  return *ways_[n];
}

Enclosure MhaOracle::enclosure(std::size_t n, Index b, Index i, Index e) {
  if (n != row_way_ || b != row_b_ || i != row_i_) row_.start(block_, b, i);
  row_way_ = n;
  row_b_ = b;
  row_i_ = i;
  return row_.enclosure(block_, way(n), e);
}

// `quick` may be null.
Verdict MhaOracle::judge_way(std::size_t n, const Tensor& out, QuickBlock* quick) {
  const Rounding round{block_.contract.attention.policy[Stage::output], format_of(out.dtype()),
                       block_.contract.attention.arithmetic.flush_to_zero};
  const attest_tensor view = out.view();
  Counts counts;
  bool all_wide = quick == nullptr || !quick->proves_not_wide();
  std::vector<RowIndex> accepted;  // elements without a computed enclosure: {b, e, i}
  const auto judge = [&](Index b, Index i, Index e) -> std::optional<Evidence> {
    const Enclosure at = enclosure(n, b, i, e);
    const double got = attest_load(&view, b, i, e, 0);
    const Outcome outcome = judge_element(at, round, got);
    ++(outcome == Outcome::undetermined ? counts.undetermined : counts.judged);
    if (outcome == Outcome::inside && !holds_hull(at)) all_wide = false;
    if (outcome != Outcome::outside) return {};
    Evidence evidence = evidence_of(at, round, got);
    evidence.tensor = "out";
    evidence.index = {b, i, e, 0};
    return evidence;
  };
  for (const Index row : rows_) {
    const Index b = row / block_.call.l(), i = row % block_.call.l();
    for (Index e = 0; e < block_.call.e(); ++e) {
      if (quick != nullptr &&
          (quick->accepts(row, e) || quick->accepts_closely(b, i, e, round, attest_load(&view, b, i, e, 0)))) {
        if (all_wide) accepted.push_back({b, e, i});
        if (!all_wide) ++counts.judged;
        continue;
      }
      std::optional<Evidence> evidence = judge(b, i, e);
      if (!evidence) continue;
      counts.judged += static_cast<Index>(accepted.size());
      return Verdict::fail(std::move(*evidence), counts);
    }
  }
  for (const RowIndex& at : accepted) {
    if (all_wide)
      judge(at.b, at.i, at.h);
    else
      ++counts.judged;
  }
  if (counts.judged == 0) return Verdict::vacuous("undetermined", counts);
  if (!all_wide) return Verdict::pass(counts);
  counts.wide = counts.judged;
  return Verdict::vacuous("wide", counts);
}

Verdict MhaOracle::judge_way_quickly(std::size_t n, const Tensor& out) {
  // It judges all rows, and where few are asked for that would cost more than it spares.
  if (static_cast<Index>(rows_.size()) < block_.call.b() * block_.call.l()) return judge_way(n, out, nullptr);
  QuickBlock quick(block_, names_[n].projected, names_[n].heads_rounded);
  if (quick.usable()) quick.judge(out);
  return judge_way(n, out, quick.usable() ? &quick : nullptr);
}

Verdict MhaOracle::judge_ways(const Tensor& out, bool quickly) {
  Verdict first;
  judged_way_ = 0;
  for (std::size_t n = 0; n < names_.size(); ++n) {
    Verdict verdict = quickly ? judge_way_quickly(n, out) : judge_way(n, out, nullptr);
    if (verdict.kind != VerdictKind::fail) {
      judged_way_ = n;
      return verdict;
    }
    if (n == 0) first = std::move(verdict);
  }
  return first;
}

Verdict MhaOracle::judge_slowly(const Tensor& out) { return judge_ways(out, false); }

Verdict MhaOracle::judge(const Tensor& out) { return judge_ways(out, true); }

}  // namespace attest::oracle
